// Where kReturn goes back to: the calls and loop iterations that a way is in the middle of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/count_set.h"
#include "grammar/program.h"

namespace kv8 {

using StackId = std::uint32_t;
using CountsId = std::uint32_t;

inline constexpr StackId kNoCaller = 0;    // a return here ends the text
inline constexpr StackId kOpenCaller = 1;  // a return here leaves what is known

/// The top of one or more chains: the kCall or kLoop that was entered, and where that goes back to.
/// kReturnPc: the bottom, where `rest` is kNoCaller or kOpenCaller.
struct Caller {
  Pc pc = kReturnPc;
  CountsId counts = 0;  // of a kLoop: iterations begun
  StackId rest = kNoCaller;

  auto operator<=>(const Caller&) const = default;
};

/// A stack is a set of chains, as a graph that shares what they have in common (Tomita's
/// graph-structured stack): all ways at one place of the program are one way with one stack. It has
/// one caller for each call, and for a loop at most one for each count, however many chains there
/// are, so that ambiguity costs no more than its places. Stacks are interned: equal ones have equal
/// ids.
class Stacks {
 public:
  /// `program` must outlive the stacks.
  explicit Stacks(const Program& program);

  /// Valid until the next stack is made.
  std::span<const Caller> callers(StackId id) const {
    return std::span(callers_).subspan(stacks_[id].first, stacks_[id].size);
  }
  const CountSet& counts(CountsId id) const { return counts_[id]; }
  /// Of the longest chain.
  std::uint32_t depth(StackId id) const { return stacks_[id].depth; }
  /// Whether a return goes on in a loop, by some chain.
  bool in_loop(StackId id) const { return stacks_[id].in_loop; }

  StackId Push(StackId rest, Pc call);
  /// `counts` is not empty.
  StackId Push(StackId rest, Pc loop, const CountSet& counts);
  /// The chains through one caller.
  StackId Single(const Caller& caller) { return Intern({&caller, 1}); }
  /// The chains of both.
  StackId Union(StackId a, StackId b);
  /// A stack of other stacks, in this one. `copies` holds what was copied before.
  StackId Copy(const Stacks& from, StackId id, std::unordered_map<StackId, StackId>& copies);

  /// Roughly the memory that is taken.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Stack {
    std::uint32_t first = 0;  // in callers_
    std::uint32_t size = 0;
    std::uint32_t depth = 0;
    bool in_loop = false;
  };

  StackId Intern(std::span<const Caller> callers);
  CountsId InternCounts(const CountSet& counts);
  Caller UnionOfCalls(std::span<const Caller> callers);
  void AddUnionOfLoops(std::span<const Caller> callers, std::vector<Caller>& all);

  const Program* program_;
  std::vector<Caller> callers_;
  std::vector<Stack> stacks_;
  std::deque<CountSet> counts_;  // which stay where they are
  std::unordered_multimap<std::uint64_t, StackId> stack_index_;
  std::unordered_multimap<std::uint64_t, CountsId> counts_index_;
  std::unordered_map<std::uint64_t, StackId> unions_;
  std::size_t bytes_ = 0;
};

}  // namespace kv8
