// Runs a program over bytes: every way to read them at once, as a lazily built automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/program.h"

namespace kv8 {

/// A set of ways to be in the middle of a text. States are numbered as they are first reached.
using StateId = std::uint32_t;
/// Where kReturn goes back to: a chain of calls and loop iterations, shared by all who have it.
using FrameId = std::uint32_t;

inline constexpr StateId kDeadState = 0;
inline constexpr FrameId kNoCaller = 0;    // a return here ends the text
inline constexpr FrameId kOpenCaller = 1;  // a return here leaves what is known
inline constexpr std::uint32_t kMaxFrameDepth = 128;
inline constexpr std::size_t kMaxWays = 4096;            // of one state
inline constexpr std::size_t kMaxVisits = 4 * kMaxWays;  // places on the way to one state

struct Frame {
  FrameId parent = kNoCaller;
  Pc pc = kReturnPc;        // the kCall or kLoop that was entered
  std::uint32_t count = 0;  // of a kLoop: iterations begun
  std::uint32_t depth = 0;
};

/// One way: about to read at a kBytes, or at kReturnPc with nothing above kNoCaller or kOpenCaller.
struct Way {
  Pc pc = kReturnPc;
  FrameId frame = kNoCaller;

  bool operator==(const Way&) const = default;
  bool operator<(const Way& other) const {
    return pc != other.pc ? pc < other.pc : frame < other.frame;
  }
};

/// Bounded: what would nest deeper than kMaxFrameDepth, be in more than kMaxWays ways at once, or
/// take more than kMaxBytes is dead, so that less is allowed and nothing wrong.
class Machine {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  /// `program` must outlive the machine.
  explicit Machine(const Program& program);

  StateId start() const { return start_; }

  /// After `byte`; kDeadState when no way reads it.
  StateId Step(StateId state, std::uint8_t byte) {
    const StateId known = states_[state].next[program_->class_of[byte]];
    return known != kUnknown ? known : Compute(state, program_->class_of[byte]);
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
  bool finished(StateId state) const { return states_[state].readers == 0; }

  std::span<const Way> ways(StateId state) const { return states_[state].ways; }
  const Frame& frame(FrameId id) const { return frames_[id]; }
  const Program& program() const { return *program_; }

  /// The frame `parent`, entered by `pc`, in iteration `count`.
  FrameId Push(FrameId parent, Pc pc, std::uint32_t count);
  /// The state in exactly these ways.
  StateId Intern(std::vector<Way> ways);
  /// The state after a return to `frame`.
  StateId Return(FrameId frame);

  /// Roughly the memory that states and frames take.
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr StateId kUnknown = UINT32_MAX;

  struct State {
    std::vector<Way> ways;      // sorted
    std::vector<StateId> next;  // by class of byte
    std::uint32_t readers = 0;  // ways at a kBytes
    bool complete = false;
    bool leaves = false;
  };

  bool InLoop(FrameId frame) const { return program_->code[frames_[frame].pc].op == Op::kLoop; }
  StateId Compute(StateId state, std::uint8_t byte_class);
  void Visit(Pc pc, FrameId frame);
  void Follow(const Way& way);
  void EnterLoop(Pc pc, FrameId frame, std::uint32_t count);
  void ReturnTo(FrameId frame);
  StateId Close();

  const Program* program_;
  StateId start_ = kDeadState;
  std::vector<State> states_;
  std::vector<Frame> frames_;
  std::size_t bytes_ = 0;
  std::unordered_multimap<std::uint64_t, StateId> state_index_;
  std::unordered_multimap<std::uint64_t, FrameId> frame_index_;

  // Of the closure in hand.
  std::vector<Way> open_;
  std::vector<Way> found_;
  std::unordered_set<std::uint64_t> seen_;
  bool too_many_ = false;
};

}  // namespace kv8
