#include "grammar/token_masks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kv8/constraint.h"

namespace kv8 {
namespace {

void SetBit(std::span<std::uint64_t> mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  if (id / 64 < mask.size()) mask[id / 64] |= std::uint64_t{1} << (id % 64);
}

}  // namespace

void TokenMasks::TokenSet::AddTo(std::span<std::uint64_t> mask) const {
  for (const TokenId token : few) SetBit(mask, token);
  const std::size_t count = std::min(words.size(), mask.size());
  for (std::size_t i = 0; i < count; ++i) mask[i] |= words[i];
}

void TokenMasks::Fill(StateId state, std::span<std::uint64_t> mask) {
  if (const auto known = whole_.find(state); known != whole_.end()) {
    return known->second.AddTo(mask);
  }
  if (whole_bytes_ > kMaxBytes) {
    whole_.clear();
    whole_bytes_ = 0;
  }
  std::vector<std::uint64_t> all(MaskWords(static_cast<std::int64_t>(trie_->vocab())));
  Find(state, all);
  const TokenSet& set = whole_.emplace(state, Pack(all)).first->second;
  whole_bytes_ += set.bytes();
  set.AddTo(mask);
}

void TokenMasks::Find(StateId state, std::span<std::uint64_t> mask) {
  std::vector<std::pair<FrameId, Way>> detached;  // by caller
  for (const Way& way : machine_->ways(state)) {
    if (way.pc == kReturnPc) continue;
    FrameId caller = kNoCaller;
    const FrameId frame = Detach(way.frame, caller);
    detached.emplace_back(caller, Way{way.pc, frame});
  }
  std::sort(detached.begin(), detached.end());
  detached.erase(std::unique(detached.begin(), detached.end()), detached.end());
  if (part_bytes_ > kMaxBytes) {
    parts_.clear();
    part_bytes_ = 0;
  }
  for (std::size_t i = 0; i < detached.size();) {
    const FrameId caller = detached[i].first;
    std::vector<Way> ways;
    for (; i < detached.size() && detached[i].first == caller; ++i) {
      ways.push_back(detached[i].second);
    }
    const Part& part = PartOf(machine_->Intern(std::move(ways)));
    part.tokens.AddTo(mask);
    if (caller == kNoCaller || part.exits.empty()) continue;
    const StateId after = machine_->Return(caller);
    if (machine_->finished(after)) continue;
    for (const std::uint32_t node : part.exits) Walk(node, after, mask, nullptr);
  }
  for (const TokenId token : trie_->long_tokens()) {
    if (machine_->Run(state, trie_->Bytes(token)) != kDeadState) SetBit(mask, token);
  }
}

const TokenMasks::Part& TokenMasks::PartOf(StateId state) {
  const auto [entry, is_new] = parts_.try_emplace(state);
  Part& part = entry->second;
  if (!is_new) return part;
  std::vector<std::uint64_t> all(MaskWords(static_cast<std::int64_t>(trie_->vocab())));
  Walk(0, state, all, &part.exits);
  part.tokens = Pack(all);
  part_bytes_ += part.tokens.bytes() + part.exits.size() * sizeof(std::uint32_t);
  return part;
}

/// The same loops above kOpenCaller as `frame` has above its caller.
FrameId TokenMasks::Detach(FrameId id, FrameId& caller) {
  const Frame frame = machine_->frame(id);
  const bool is_loop = machine_->program().code[frame.pc].op == Op::kLoop;
  if (!is_loop) {
    caller = id;
    return kOpenCaller;
  }
  const FrameId parent = Detach(frame.parent, caller);
  return machine_->Push(parent, frame.pc, AlikeCount(frame));
}

/// A count that no common token can tell from this one: what matters is which limits of the loop
/// are near enough to be reached within one.
std::uint32_t TokenMasks::AlikeCount(const Frame& frame) const {
  const Instruction& loop = machine_->program().code[frame.pc];
  constexpr std::uint32_t kLongest = TokenTrie::kCommonBytes;
  if (frame.count < loop.min && loop.min - frame.count > kLongest) {
    return std::min<std::uint32_t>(frame.count, 1);
  }
  if (frame.count >= loop.min && loop.max - frame.count >= kLongest) {
    return std::max<std::uint32_t>(loop.min, std::min<std::uint32_t>(frame.count, 1));
  }
  return frame.count;
}

/// Adds the tokens below `node` that are read from `state`, which is the one at `node`.
void TokenMasks::Walk(std::uint32_t node, StateId state, std::span<std::uint64_t> mask,
                      std::vector<std::uint32_t>* exits) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  path_.resize(TokenTrie::kCommonBytes + 1);
  path_[nodes[node].depth] = state;
  const std::uint32_t end = nodes[node].end;
  for (std::uint32_t i = node + 1; i < end;) {
    const TokenTrie::Node& at = nodes[i];
    const StateId next = machine_->Step(path_[at.depth - 1u], at.byte);
    if (next == kDeadState) {
      i = at.end;
      continue;
    }
    path_[at.depth] = next;
    for (const TokenId token : trie_->TokensAt(i)) SetBit(mask, token);
    if (exits != nullptr && at.end > i + 1 && machine_->leaves(next)) exits->push_back(i);
    ++i;
  }
}

TokenMasks::TokenSet TokenMasks::Pack(std::span<const std::uint64_t> mask) {
  std::size_t count = 0;
  for (const std::uint64_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
  TokenSet set;
  if (count * sizeof(TokenId) >= mask.size_bytes()) {
    set.words.assign(mask.begin(), mask.end());
    return set;
  }
  set.few.reserve(count);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::uint64_t word = mask[i]; word != 0; word &= word - 1) {
      set.few.push_back(static_cast<TokenId>(i * 64) + std::countr_zero(word));
    }
  }
  return set;
}

}  // namespace kv8
