#include "grammar/machine.h"

#include <algorithm>
#include <utility>

#include "grammar/hash.h"

namespace kv8 {
namespace {

/// Clears a table; one that a large case has left with many buckets, which take time, is new.
template <class Table>
void Clear(Table& table) {
  if (table.bucket_count() > 1024) {
    table = {};
  } else {
    table.clear();
  }
}

}  // namespace

Machine::Machine(const Program& program)
    : program_(&program), classes_(program.class_bytes.size()), stacks_(program) {
  states_.emplace_back();
  next_.assign(classes_, kDeadState);
  Visit(program.start, kNoCaller);
  start_ = Close();
}

StateId Machine::Intern(std::vector<Way> ways) {
  if (ways.empty() || spent_) return kDeadState;
  std::ranges::sort(ways);
  std::uint64_t hash = ways.size();
  for (const Way& way : ways) hash = Mix(hash, PairKey(way.pc, way.stack));
  const auto [first, last] = state_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (states_[it->second].ways == ways) return it->second;
  }
  if (bytes() > kMaxBytes) {
    spent_ = true;
    return kDeadState;
  }
  State state;
  for (const Way& way : ways) {
    state.reads |= way.pc != kReturnPc;
    state.complete |= way.pc == kReturnPc && way.stack == kNoCaller;
    state.leaves |= way.pc == kReturnPc && way.stack == kOpenCaller;
    state.depth = std::max(state.depth, stacks_.depth(way.stack));
  }
  state.ways = std::move(ways);
  bytes_ +=
      sizeof(State) + state.ways.size() * sizeof(Way) + classes_ * sizeof(StateId) + kIndexBytes;
  states_.push_back(std::move(state));
  next_.resize(next_.size() + classes_, kUnknown);
  const auto id = static_cast<StateId>(states_.size() - 1);
  state_index_.emplace(hash, id);
  return id;
}

StateId Machine::Return(StackId stack) {
  ReturnTo(stack);
  return Close();
}

StateId Machine::Copy(const Machine& from, StateId state) {
  std::unordered_map<StackId, StackId> copies;
  std::vector<Way> ways;
  for (const Way& way : from.ways(state)) {
    ways.push_back({way.pc, stacks_.Copy(from.stacks_, way.stack, copies)});
  }
  return Intern(std::move(ways));
}

StateId Machine::Compute(StateId state, std::uint8_t byte_class) {
  if (spent_) return kDeadState;
  const std::uint8_t byte = program_->class_bytes[byte_class];
  for (const Way& way : states_[state].ways) {
    const Instruction& i = program_->code[way.pc];
    if (i.op == Op::kBytes && program_->sets[i.operand][byte]) Visit(i.next, way.stack);
  }
  Charge(static_cast<std::int64_t>(states_[state].ways.size() / 8));
  const StateId next = Close();
  if (!spent_) next_[state * classes_ + byte_class] = next;
  return next;
}

/// Adds a place to the closure, unless it is there or leads nowhere.
void Machine::Visit(Pc pc, StackId stack) {
  if (!program_->productive[pc] || spent_) return;
  if (!seen_.insert(PairKey(pc, stack)).second) return;
  open_.push_back({pc, stack});
  Charge(1);
}

/// Visits all that can be reached without reading, and interns what reads or ends.
StateId Machine::Close() {
  while (!open_.empty() && !spent_) {
    const Way way = open_.back();
    open_.pop_back();
    Follow(way);
  }
  UniteWays();
  const StateId state = Intern(std::exchange(found_, {}));
  open_.clear();
  Clear(seen_);
  Clear(begun_);
  return state;
}

/// Of the ways at one place, one with the stacks of all.
void Machine::UniteWays() {
  std::ranges::sort(found_);
  std::size_t kept = 0;
  for (const Way& way : found_) {
    if (kept > 0 && found_[kept - 1] == way) continue;
    if (kept > 0 && way.pc != kReturnPc && found_[kept - 1].pc == way.pc) {
      found_[kept - 1].stack = stacks_.Union(found_[kept - 1].stack, way.stack);
    } else {
      found_[kept++] = way;
    }
  }
  found_.resize(kept);
}

void Machine::Follow(const Way& way) {
  const Instruction& i = program_->code[way.pc];
  switch (i.op) {
    case Op::kReturn:
      return ReturnTo(way.stack);
    case Op::kBytes:
      found_.push_back(way);
      return;
    case Op::kSplit:
      Visit(i.next, way.stack);
      return Visit(i.operand, way.stack);
    case Op::kCall:
      // Nothing follows a last call, so its caller's caller will do: right recursion stays flat.
      // Not in a loop, whose count would look like a part of what is called.
      if (i.next == kReturnPc && !stacks_.in_loop(way.stack)) {
        return Visit(program_->entries[i.operand], way.stack);
      }
      if (stacks_.depth(way.stack) >= kMaxStackDepth) return;
      return Visit(program_->entries[i.operand], stacks_.Push(way.stack, way.pc));
    case Op::kLoop:
      return EnterLoop(way.pc, way.stack, {{0, 0}});
    case Op::kGoOn:
      return GoOn(i.operand, way.stack);
  }
}

/// At the head of a loop after so many iterations.
void Machine::EnterLoop(Pc pc, StackId stack, const CountSet& counts) {
  const Instruction& i = program_->code[pc];
  if (counts.back().last >= i.min) Visit(i.next, stack);
  if (stacks_.depth(stack) >= kMaxStackDepth) return;
  CountSet& begun = begun_[PairKey(pc, stack)];
  // An iteration that reads nothing only gets to a higher count, which what is begun can do too.
  const CountSet fresh = Besides(NextIteration(counts, i.min, i.max), begun, i.min);
  if (fresh.empty()) return;
  begun = UnionOf(begun, fresh, i.min);
  Charge(static_cast<std::int64_t>(fresh.size() / 8));
  Visit(i.operand, stacks_.Push(stack, pc, fresh));
}

/// Ends an iteration of the loops that `stack` is in; the loop at `pc` counts on.
void Machine::GoOn(Pc pc, StackId stack) {
  const std::size_t count = stacks_.callers(stack).size();
  for (std::size_t i = 0; i < count && !spent_; ++i) {
    const Caller caller = stacks_.callers(stack)[i];
    EnterLoop(pc, caller.rest, stacks_.counts(caller.counts));
  }
}

void Machine::ReturnTo(StackId stack) {
  const std::size_t count = stacks_.callers(stack).size();
  for (std::size_t i = 0; i < count && !spent_; ++i) {
    const Caller caller = stacks_.callers(stack)[i];
    if (caller.pc == kReturnPc) {
      found_.push_back({kReturnPc, caller.rest});
      continue;
    }
    const Instruction& entered = program_->code[caller.pc];
    if (entered.op == Op::kCall) {
      Visit(entered.next, caller.rest);
    } else {
      EnterLoop(caller.pc, caller.rest, stacks_.counts(caller.counts));
    }
  }
}

}  // namespace kv8
