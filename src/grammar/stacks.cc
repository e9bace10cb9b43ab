#include "grammar/stacks.h"

#include <algorithm>
#include <map>
#include <optional>

#include "grammar/hash.h"

namespace kv8 {

Stacks::Stacks(const Program& program) : program_(&program), counts_(1) {
  Single({.rest = kNoCaller});
  Single({.rest = kOpenCaller});
}

StackId Stacks::Intern(std::span<const Caller> callers) {
  std::uint64_t hash = callers.size();
  for (const Caller& caller : callers) {
    hash = Mix(Mix(hash, PairKey(caller.pc, caller.rest)), caller.counts);
  }
  const auto [first, last] = stack_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (std::ranges::equal(this->callers(it->second), callers)) return it->second;
  }
  Stack stack{.first = static_cast<std::uint32_t>(callers_.size()),
              .size = static_cast<std::uint32_t>(callers.size())};
  for (const Caller& caller : callers) {
    if (caller.pc == kReturnPc) continue;
    stack.depth = std::max(stack.depth, stacks_[caller.rest].depth + 1);
    stack.in_loop |= program_->code[caller.pc].op == Op::kLoop;
  }
  callers_.insert(callers_.end(), callers.begin(), callers.end());
  stacks_.push_back(stack);
  bytes_ += sizeof(Stack) + callers.size_bytes() + kIndexBytes;
  const auto id = static_cast<StackId>(stacks_.size() - 1);
  stack_index_.emplace(hash, id);
  return id;
}

CountsId Stacks::InternCounts(const CountSet& counts) {
  std::uint64_t hash = counts.size();
  for (const CountRange& range : counts) hash = Mix(hash, PairKey(range.first, range.last));
  const auto [first, last] = counts_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (counts_[it->second] == counts) return it->second;
  }
  counts_.push_back(counts);
  bytes_ += sizeof(CountSet) + counts.size() * sizeof(CountRange) + kIndexBytes;
  const auto id = static_cast<CountsId>(counts_.size() - 1);
  counts_index_.emplace(hash, id);
  return id;
}

StackId Stacks::Push(StackId rest, Pc call) {
  return Single({.pc = call, .rest = rest});
}

StackId Stacks::Push(StackId rest, Pc loop, const CountSet& counts) {
  return Single({.pc = loop, .counts = InternCounts(counts), .rest = rest});
}

StackId Stacks::Union(StackId a, StackId b) {
  if (a == b) return a;
  const std::uint64_t key = PairKey(std::min(a, b), std::max(a, b));
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  std::vector<Caller> both;
  std::ranges::set_union(callers(a), callers(b), std::back_inserter(both));
  std::vector<Caller> all;
  for (std::size_t i = 0; i < both.size();) {
    std::size_t end = i + 1;
    while (end < both.size() && both[end].pc == both[i].pc) ++end;
    const std::span<const Caller> same(both.data() + i, end - i);
    const Op op = program_->code[both[i].pc].op;
    if (op == Op::kLoop) {
      AddUnionOfLoops(same, all);
    } else if (op == Op::kCall) {
      all.push_back(UnionOfCalls(same));
    } else {
      all.insert(all.end(), same.begin(), same.end());
    }
    i = end;
  }
  std::ranges::sort(all);
  const StackId id = Intern(all);
  unions_.emplace(key, id);
  bytes_ += kIndexBytes;
  return id;
}

Caller Stacks::UnionOfCalls(std::span<const Caller> callers) {
  Caller all = callers.front();
  for (const Caller& caller : callers.subspan(1)) all.rest = Union(all.rest, caller.rest);
  return all;
}

/// For each count the union of what its chains go back to; counts with the same are one caller.
void Stacks::AddUnionOfLoops(std::span<const Caller> callers, std::vector<Caller>& all) {
  const std::uint32_t min = program_->code[callers.front().pc].min;
  std::map<StackId, CountSet> by_rest;
  for (const Caller& caller : callers) {
    CountSet& counts = by_rest[caller.rest];
    counts = UnionOf(counts, counts_[caller.counts], min);
  }
  std::vector<std::uint32_t> cuts;
  for (const auto& [rest, counts] : by_rest) {
    for (const CountRange& range : counts) cuts.insert(cuts.end(), {range.first, range.last + 1});
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::map<StackId, CountSet> apart;
  for (std::size_t i = 0; i + 1 < cuts.size() && by_rest.size() > 1; ++i) {
    std::optional<StackId> together;
    for (const auto& [rest, counts] : by_rest) {
      if (HasCount(counts, cuts[i])) together = together ? Union(*together, rest) : rest;
    }
    if (!together) continue;
    CountSet& counts = apart[*together];
    counts = UnionOf(counts, {{cuts[i], cuts[i + 1] - 1}}, min);
  }
  for (const auto& [rest, counts] : by_rest.size() > 1 ? apart : by_rest) {
    all.push_back({callers.front().pc, InternCounts(counts), rest});
  }
}

StackId Stacks::Copy(const Stacks& from, StackId id, std::unordered_map<StackId, StackId>& copies) {
  if (id <= kOpenCaller) return id;
  if (const auto known = copies.find(id); known != copies.end()) return known->second;
  std::vector<Caller> own;
  for (const Caller& caller : from.callers(id)) {
    const bool is_loop = caller.counts != 0;
    const StackId rest = caller.pc == kReturnPc ? caller.rest : Copy(from, caller.rest, copies);
    own.push_back({caller.pc, is_loop ? InternCounts(from.counts(caller.counts)) : 0, rest});
  }
  std::ranges::sort(own);
  const StackId copy = Intern(own);
  copies.emplace(id, copy);
  return copy;
}

}  // namespace kv8
