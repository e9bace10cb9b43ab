// Runs a program over bytes: every way to read them at once, as a lazily built automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/program.h"
#include "grammar/stacks.h"

namespace kv8 {

/// A set of ways to be in the middle of a text. States are numbered as they are first reached.
using StateId = std::uint32_t;

inline constexpr StateId kDeadState = 0;
/// Calls and loops inside one another. What would nest deeper is not allowed.
inline constexpr std::uint32_t kMaxStackDepth = 128;

/// One way: about to read at a kBytes, or at kReturnPc with kNoCaller or kOpenCaller.
struct Way {
  Pc pc = kReturnPc;
  StackId stack = kNoCaller;

  auto operator<=>(const Way&) const = default;
};

/// Every way is followed, so a state holds at most one for each place of the program. What an
/// operation may cost is bounded: one that would go past its allowance, or past kMaxBytes, gives
/// kDeadState and makes the machine `spent`. Then its result says nothing about the text.
class Machine {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::int64_t kNoLimitOfWork = std::numeric_limits<std::int64_t>::max();

  /// `program` must outlive the machine.
  explicit Machine(const Program& program);

  StateId start() const { return start_; }

  /// After `byte`; kDeadState when no way reads it, or when spent.
  StateId Step(StateId state, std::uint8_t byte) {
    const std::uint8_t byte_class = program_->class_of[byte];
    const StateId known = next_[state * classes_ + byte_class];
    return known != kUnknown ? known : Compute(state, byte_class);
  }
  StateId Run(StateId state, std::string_view bytes) {
    for (const char byte : bytes) state = Step(state, static_cast<std::uint8_t>(byte));
    return state;
  }

  /// Whether the text may end here.
  bool complete(StateId state) const { return states_[state].complete; }
  /// Whether a return to kOpenCaller is among the ways.
  bool leaves(StateId state) const { return states_[state].leaves; }
  /// Whether no byte can be read.
  bool finished(StateId state) const { return !states_[state].reads; }
  /// Of the deepest stack.
  std::uint32_t depth(StateId state) const { return states_[state].depth; }

  std::span<const Way> ways(StateId state) const { return states_[state].ways; }
  Stacks& stacks() { return stacks_; }
  const Stacks& stacks() const { return stacks_; }
  const Program& program() const { return *program_; }

  /// The state in exactly these ways, no two of them at one place.
  StateId Intern(std::vector<Way> ways);
  /// The state after a return to `stack`.
  StateId Return(StackId stack);
  /// A state of another machine of the same program, in this one.
  StateId Copy(const Machine& from, StateId state);

  /// Begins an operation that may take so much work. A unit is a place visited, some 50 ns.
  void Allow(std::int64_t work) {
    allowed_ = allowance_ = work;
    spent_ = false;
  }
  /// Since Allow.
  std::int64_t used() const { return allowed_ - allowance_; }
  /// Counts work that is done outside of the machine.
  void Charge(std::int64_t work) {
    allowance_ -= work;
    spent_ |= allowance_ < 0;
  }
  bool spent() const { return spent_; }

  /// Roughly the memory that states and stacks take.
  std::size_t bytes() const { return bytes_ + stacks_.bytes(); }

 private:
  static constexpr StateId kUnknown = UINT32_MAX;

  struct State {
    std::vector<Way> ways;  // sorted
    std::uint32_t depth = 0;
    bool reads = false;
    bool complete = false;
    bool leaves = false;
  };

  StateId Compute(StateId state, std::uint8_t byte_class);
  void Visit(Pc pc, StackId stack);
  void Follow(const Way& way);
  void EnterLoop(Pc pc, StackId stack, const CountSet& counts);
  void GoOn(Pc pc, StackId stack);
  void ReturnTo(StackId stack);
  StateId Close();
  void UniteWays();

  const Program* program_;
  const std::size_t classes_;
  Stacks stacks_;
  StateId start_ = kDeadState;
  std::vector<State> states_;
  std::vector<StateId> next_;  // by state and class of byte
  std::size_t bytes_ = 0;
  std::unordered_multimap<std::uint64_t, StateId> state_index_;
  std::int64_t allowed_ = kNoLimitOfWork;
  std::int64_t allowance_ = kNoLimitOfWork;
  bool spent_ = false;

  // Of the closure in hand.
  std::vector<Way> open_;
  std::vector<Way> found_;
  std::unordered_set<std::uint64_t> seen_;
  std::unordered_map<std::uint64_t, CountSet> begun_;  // by loop and stack
};

}  // namespace kv8
