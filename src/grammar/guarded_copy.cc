#include "grammar/guarded_copy.h"

#include <map>
#include <tuple>
#include <utility>

namespace kv8 {
namespace {

using State = WordGuard::State;

/// The product of the program and the guard, as far as it is reached.
class GuardedCopy {
 public:
  GuardedCopy(ProgramBuilder& builder, const Program& program, const WordGuard& guard)
      : builder_(&builder), program_(&program), guard_(&guard) {}

  Pc Add() {
    const Pc start = PlaceOf({kText, program_->start, 0});
    while (!open_.empty() && !builder_->full()) {
      const auto [node, pc] = open_.back();
      open_.pop_back();
      builder_->Set(pc, InstructionOf(node));
    }
    return start;
  }

 private:
  // Where a return goes: to the end of the text, to a caller, or (from 2 on) to the head of a loop,
  // whose iterations may begin in any state.
  using Context = std::uint32_t;
  static constexpr Context kText = 0;
  static constexpr Context kRule = 1;

  struct Node {
    Context context;
    Pc pc;
    State state;
    auto operator<=>(const Node&) const = default;
  };

  Pc PlaceOf(const Node& node) {
    const auto [place, is_new] = places_.try_emplace(node, kReturnPc);
    if (is_new) {
      place->second = builder_->Reserve();
      open_.emplace_back(node, place->second);
    }
    return place->second;
  }

  Instruction InstructionOf(const Node& node) {
    Instruction i = program_->code[node.pc];
    if (!program_->productive[node.pc]) return Nothing();
    switch (i.op) {
      case Op::kReturn:
        return ReturnOf(node);
      case Op::kBytes:
        return BytesOf(node, i);
      case Op::kSplit:
        i.next = PlaceOf({node.context, i.next, node.state});
        i.operand = PlaceOf({node.context, i.operand, node.state});
        return i;
      case Op::kCall:
        // A last call needs no caller; its text may end as the caller's may.
        if (i.next == kReturnPc && node.context == kText) {
          return Jump(PlaceOf({kText, program_->entries[i.operand], node.state}));
        }
        i.operand = RuleOf(i.operand, node.state);
        i.next = PlaceOf({node.context, i.next, 0});
        return i;
      case Op::kLoop:
        i.next = PlaceOf({node.context, i.next, node.state});
        i.operand = PlaceOf({ContextOf(node), i.operand, node.state});
        return i;
      case Op::kGoOn:
        break;  // copies are not copied
    }
    return Nothing();
  }

  Instruction ReturnOf(const Node& node) {
    if (node.context == kText) return Jump(kReturnPc);
    if (node.context == kRule) return node.state == 0 ? Jump(kReturnPc) : Nothing();
    Node loop = loops_[node.context - kFirstLoop];
    loop.state = node.state;
    return {.op = Op::kGoOn, .operand = PlaceOf(loop)};
  }

  /// One way for each state that the bytes lead to.
  Instruction BytesOf(const Node& node, const Instruction& bytes) {
    std::map<State, ByteSet> ways;
    const ByteSet& set = program_->sets[bytes.operand];
    for (std::size_t byte = 0; byte < set.size(); ++byte) {
      if (!set[byte]) continue;
      const State next = guard_->Next(node.state, static_cast<std::uint8_t>(byte));
      if (next != WordGuard::kFound) ways[next].set(byte);
    }
    if (ways.empty()) return Nothing();
    Pc entry = kReturnPc;
    for (const auto& [state, part] : ways) {
      const Pc way = builder_->Bytes(part, PlaceOf({node.context, bytes.next, state}));
      entry = entry == kReturnPc ? way : builder_->Either(way, entry);
    }
    return Jump(entry);
  }

  RuleId RuleOf(RuleId rule, State state) {
    const auto [known, is_new] = rules_.try_emplace({rule, state}, 0);
    if (is_new) {
      known->second = builder_->AddRule();
      const RuleId copy = known->second;
      builder_->SetEntry(copy, PlaceOf({kRule, program_->entries[rule], state}));
      return copy;
    }
    return known->second;
  }

  /// The context of a loop's body, the same whatever state the loop is entered in.
  Context ContextOf(Node loop) {
    loop.state = 0;
    const auto next = static_cast<Context>(kFirstLoop + loops_.size());
    const auto [known, is_new] = contexts_.try_emplace(loop, next);
    if (is_new) loops_.push_back(loop);
    return known->second;
  }

  static constexpr Context kFirstLoop = 2;

  /// An instruction that only goes on elsewhere.
  static Instruction Jump(Pc to) { return {.op = Op::kSplit, .next = to, .operand = to}; }
  Instruction Nothing() { return Jump(builder_->Nothing()); }

  ProgramBuilder* builder_;
  const Program* program_;
  const WordGuard* guard_;
  std::map<Node, Pc> places_;
  std::vector<std::pair<Node, Pc>> open_;  // places without their instruction
  std::map<std::pair<RuleId, State>, RuleId> rules_;
  std::map<Node, Context> contexts_;
  std::vector<Node> loops_;  // by context
};

}  // namespace

Pc AddGuarded(ProgramBuilder& builder, const Program& program, const WordGuard& guard) {
  return GuardedCopy(builder, program, guard).Add();
}

}  // namespace kv8
