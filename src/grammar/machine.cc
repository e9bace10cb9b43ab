#include "grammar/machine.h"

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

constexpr std::size_t kIndexBytes = 48;  // of an entry in a hash table

/// The finalizer of splitmix64, over a running hash.
std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = (hash ^ value) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t Key(const Way& way) {
  return std::uint64_t{way.pc} << 32 | way.frame;
}

}  // namespace

Machine::Machine(const Program& program) : program_(&program) {
  frames_.resize(2);  // kNoCaller and kOpenCaller
  states_.emplace_back();
  states_[kDeadState].next.assign(program.class_bytes.size(), kDeadState);
  Visit(program.start, kNoCaller);
  start_ = Close();
}

FrameId Machine::Push(FrameId parent, Pc pc, std::uint32_t count) {
  const std::uint64_t hash = Mix(Mix(parent, pc), count);
  const auto [first, last] = frame_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Frame& known = frames_[it->second];
    if (known.parent == parent && known.pc == pc && known.count == count) return it->second;
  }
  bytes_ += sizeof(Frame) + kIndexBytes;
  frames_.push_back({parent, pc, count, frames_[parent].depth + 1});
  const auto id = static_cast<FrameId>(frames_.size() - 1);
  frame_index_.emplace(hash, id);
  return id;
}

StateId Machine::Intern(std::vector<Way> ways) {
  if (ways.empty()) return kDeadState;
  std::sort(ways.begin(), ways.end());
  std::uint64_t hash = ways.size();
  for (const Way& way : ways) hash = Mix(hash, Key(way));
  const auto [first, last] = state_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (states_[it->second].ways == ways) return it->second;
  }
  if (bytes_ > kMaxBytes) return kDeadState;
  State state;
  for (const Way& way : ways) {
    state.readers += way.pc != kReturnPc ? 1 : 0;
    state.complete |= way.pc == kReturnPc && way.frame == kNoCaller;
    state.leaves |= way.pc == kReturnPc && way.frame == kOpenCaller;
  }
  state.ways = std::move(ways);
  state.next.assign(program_->class_bytes.size(), kUnknown);
  bytes_ += sizeof(State) + state.ways.size() * sizeof(Way) + state.next.size() * sizeof(StateId) +
            kIndexBytes;
  states_.push_back(std::move(state));
  const auto id = static_cast<StateId>(states_.size() - 1);
  state_index_.emplace(hash, id);
  return id;
}

StateId Machine::Return(FrameId frame) {
  ReturnTo(frame);
  return Close();
}

StateId Machine::Compute(StateId state, std::uint8_t byte_class) {
  const std::uint8_t byte = program_->class_bytes[byte_class];
  for (const Way& way : states_[state].ways) {
    const Instruction& i = program_->code[way.pc];
    if (i.op == Op::kBytes && program_->sets[i.operand][byte]) Visit(i.next, way.frame);
  }
  const StateId next = Close();
  states_[state].next[byte_class] = next;
  return next;
}

/// Adds a place to the closure, unless it is there or leads nowhere.
void Machine::Visit(Pc pc, FrameId frame) {
  const Way way{pc, frame};
  if (!program_->productive[pc] || too_many_) return;
  if (!seen_.insert(Key(way)).second) return;
  open_.push_back(way);
  too_many_ = seen_.size() > kMaxVisits;
}

/// Visits all that can be reached without reading, and interns what reads or ends.
StateId Machine::Close() {
  while (!open_.empty()) {
    const Way way = open_.back();
    open_.pop_back();
    Follow(way);
  }
  const bool too_many = too_many_ || found_.size() > kMaxWays;
  const StateId state = too_many ? kDeadState : Intern(std::exchange(found_, {}));
  // Clearing takes time in proportion to the buckets, which one large closure leaves behind.
  if (seen_.size() > 1024) seen_ = {};
  seen_.clear();
  found_.clear();
  too_many_ = false;
  return state;
}

void Machine::Follow(const Way& way) {
  const Instruction& i = program_->code[way.pc];
  switch (i.op) {
    case Op::kReturn:
      return ReturnTo(way.frame);
    case Op::kBytes:
      found_.push_back(way);
      return;
    case Op::kSplit:
      Visit(i.next, way.frame);
      return Visit(i.operand, way.frame);
    case Op::kCall:
      // Nothing follows a last call, so its caller's caller will do: right recursion stays flat.
      // Not in a loop, whose count would look like a part of what is called.
      if (i.next == kReturnPc && !InLoop(way.frame))
        return Visit(program_->entries[i.operand], way.frame);
      if (frames_[way.frame].depth >= kMaxFrameDepth) return;
      return Visit(program_->entries[i.operand], Push(way.frame, way.pc, 0));
    case Op::kLoop:
      return EnterLoop(way.pc, way.frame, 0);
    case Op::kGoOn: {
      const Frame frame = frames_[way.frame];
      return EnterLoop(i.operand, frame.parent, frame.count);
    }
  }
}

/// At the head of a loop after `count` iterations.
void Machine::EnterLoop(Pc pc, FrameId frame, std::uint32_t count) {
  const Instruction& i = program_->code[pc];
  if (count >= i.min) Visit(i.next, frame);
  if (count >= i.max || frames_[frame].depth >= kMaxFrameDepth) return;
  // Without an upper limit all iterations past the lower one are alike.
  const std::uint32_t begun = i.max == kNoLimit ? std::min(count + 1, i.min) : count + 1;
  Visit(i.operand, Push(frame, pc, begun));
}

void Machine::ReturnTo(FrameId id) {
  if (id == kNoCaller || id == kOpenCaller) {
    found_.push_back({kReturnPc, id});
    return;
  }
  const Frame frame = frames_[id];
  const Instruction& i = program_->code[frame.pc];
  if (i.op == Op::kCall) return Visit(i.next, frame.parent);
  EnterLoop(frame.pc, frame.parent, frame.count);
}

}  // namespace kv8
