#include "grammar/token_masks.h"

#include <algorithm>
#include <array>
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
  if (bytes_ > kMaxBytes) Forget();
  const TokenSet& set = whole_.emplace(state, Find(state)).first->second;
  bytes_ += set.bytes();
  set.AddTo(mask);
}

TokenMasks::TokenSet TokenMasks::Find(StateId state) {
  std::vector<std::pair<FrameId, Way>> detached;  // by caller
  for (const Way& way : machine_->ways(state)) {
    if (way.pc == kReturnPc) continue;
    FrameId caller = kNoCaller;
    const FrameId frame = Detach(way.frame, caller);
    detached.emplace_back(caller, Way{way.pc, frame});
  }
  std::sort(detached.begin(), detached.end());
  detached.erase(std::unique(detached.begin(), detached.end()), detached.end());
  std::vector<std::uint64_t> words(MaskWords(static_cast<std::int64_t>(trie_->vocab())));
  for (std::size_t i = 0; i < detached.size();) {
    const FrameId caller = detached[i].first;
    std::vector<Way> ways;
    for (; i < detached.size() && detached[i].first == caller; ++i) {
      ways.push_back(detached[i].second);
    }
    const Part& part = PartOf(machine_->Intern(std::move(ways)));
    part.tokens.AddTo(words);
    if (caller == kNoCaller || part.exits.empty()) continue;
    const StateId after = machine_->Return(caller);
    if (machine_->finished(after)) continue;
    for (const std::uint32_t node : part.exits) Walk(node, after, nullptr);
    for (const TokenId token : found_) SetBit(words, token);
    found_.clear();
  }
  for (std::size_t id = 0; id < trie_->vocab(); ++id) {
    if ((words[id / 64] >> (id % 64) & 1) != 0) found_.push_back(static_cast<TokenId>(id));
  }
  return Pack();
}

const TokenMasks::Part& TokenMasks::PartOf(StateId state) {
  const auto [entry, is_new] = parts_.try_emplace(state);
  Part& part = entry->second;
  if (!is_new) return part;
  Walk(0, state, &part.exits);
  part.tokens = Pack();
  bytes_ += part.tokens.bytes() + part.exits.size() * 4;
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

/// A count that no token can tell from this one: what matters is which limits of the loop are near
/// enough to be reached within the longest token.
std::uint32_t TokenMasks::AlikeCount(const Frame& frame) const {
  const Instruction& loop = machine_->program().code[frame.pc];
  const auto longest = static_cast<std::uint32_t>(trie_->longest());
  if (frame.count < loop.min && loop.min - frame.count > longest) {
    return std::min<std::uint32_t>(frame.count, 1);
  }
  if (frame.count >= loop.min && loop.max - frame.count >= longest) {
    return std::max<std::uint32_t>(loop.min, std::min<std::uint32_t>(frame.count, 1));
  }
  return frame.count;
}

/// Collects the tokens below `node` that are read from `state`, which is the one at `node`.
void TokenMasks::Walk(std::uint32_t node, StateId state, std::vector<std::uint32_t>* exits) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  path_.resize(TokenTrie::kMaxTokenBytes + 1);
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
    const std::span<const TokenId> tokens = trie_->TokensAt(i);
    found_.insert(found_.end(), tokens.begin(), tokens.end());
    if (exits != nullptr && at.end > i + 1 && machine_->leaves(next)) exits->push_back(i);
    ++i;
  }
}

/// What was found, as a set.
TokenMasks::TokenSet TokenMasks::Pack() {
  TokenSet set;
  const std::size_t words = MaskWords(static_cast<std::int64_t>(trie_->vocab()));
  if (found_.size() * sizeof(TokenId) < words * sizeof(std::uint64_t)) {
    set.few.assign(found_.begin(), found_.end());
  } else {
    set.words.resize(words);
    for (const TokenId token : found_) SetBit(set.words, token);
  }
  found_.clear();
  return set;
}

void TokenMasks::Forget() {
  whole_.clear();
  parts_.clear();
  bytes_ = 0;
}

}  // namespace kv8
