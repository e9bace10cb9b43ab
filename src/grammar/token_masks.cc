#include "grammar/token_masks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kv8/constraint.h"

namespace kv8 {
namespace {

void SetBit(std::span<std::uint64_t> mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  mask[id / 64] |= std::uint64_t{1} << (id % 64);
}

}  // namespace

TokenMasks::TokenMasks(const TokenTrie& trie, Machine& machine) : trie_(&trie), machine_(&machine) {
  path_.resize(TokenTrie::kCommonBytes + 1);
  for (const TokenSlice& slice : trie.slices()) {
    slice_chars_.push_back(CharBytesOf(slice, machine.program()));
  }
}

TokenMasks::Mask TokenMasks::EmptyMask() const {
  return Mask(MaskWords(static_cast<std::int64_t>(trie_->vocab())));
}

void TokenMasks::TokenSet::AddTo(Mask& mask) const {
  for (const TokenId token : few) SetBit(mask, token);
  for (std::size_t i = 0; i < words.size(); ++i) mask[i] |= words[i];
}

const TokenMasks::Mask* TokenMasks::Find(StateId state) {
  result_.assign(MaskWords(static_cast<std::int64_t>(trie_->vocab())), 0);
  if (const auto known = whole_.find(state); known != whole_.end()) {
    known->second.AddTo(result_);
    return &result_;
  }
  if (!AddParts(state, result_)) {
    if (machine_->spent()) return nullptr;
    result_ = EmptyMask();
    Reach reach;
    if (!Walk(trie_->common(), 0, state, result_, reach)) return nullptr;
  }
  for (const TokenId token : trie_->long_tokens()) {
    if (machine_->Run(state, trie_->Bytes(token)) != kDeadState) SetBit(result_, token);
  }
  if (machine_->spent()) return nullptr;
  if (whole_bytes_ > kMaxBytes) {
    whole_.clear();
    whole_bytes_ = 0;
  }
  whole_bytes_ += whole_.emplace(state, Pack(result_)).first->second.bytes();
  return &result_;
}

/// False when the machine is spent, and where parts would be too many, or not exact because the
/// depth of what is below them matters.
bool TokenMasks::AddParts(StateId state, Mask& mask) {
  const auto detached = Detach(state);
  if (!detached) return false;
  if (part_bytes_ > kMaxBytes) {
    parts_.clear();
    part_bytes_ = 0;
  }
  std::uint32_t pushes = 0;
  for (std::size_t i = 0; i < detached->size();) {
    const Chain chain = (*detached)[i].first;
    std::vector<Way> ways;
    for (; i < detached->size() && (*detached)[i].first == chain; ++i) {
      ways.push_back({(*detached)[i].second, chain.above});
    }
    const Part* part = PartOf(machine_->Intern(std::move(ways)));
    if (part == nullptr) return false;
    part->tokens.AddTo(mask);
    pushes = std::max(pushes, part->depth);
    if (chain.caller == kNoCaller || part->exits.empty()) continue;
    const StateId after = machine_->Return(chain.caller);
    if (machine_->finished(after)) continue;
    Reach reach{.depth = machine_->depth(after)};
    for (const std::uint32_t node : part->exits) {
      if (!Walk(*part->trie, node, after, mask, reach)) return false;
    }
    pushes = std::max(pushes, reach.depth - machine_->depth(after));
  }
  return !machine_->spent() && machine_->depth(state) + pushes <= kMaxStackDepth;
}

/// What every way is detached from, by chain; nullopt when there are too many.
std::optional<std::vector<std::pair<TokenMasks::Chain, Pc>>> TokenMasks::Detach(StateId state) {
  std::vector<std::pair<Chain, Pc>> detached;
  const std::vector<Way> ways(machine_->ways(state).begin(), machine_->ways(state).end());
  for (const Way& way : ways) {
    if (way.pc == kReturnPc) continue;
    const std::vector<Chain>& chains = ChainsOf(way.stack);
    if (chains.size() > kMaxChains || detached.size() > kMaxDetached) return std::nullopt;
    for (const Chain& chain : chains) detached.emplace_back(chain, way.pc);
  }
  std::ranges::sort(detached);
  detached.erase(std::unique(detached.begin(), detached.end()), detached.end());
  return detached;
}

/// The chains of a stack, alike ones once; more than kMaxChains where there are too many.
const std::vector<TokenMasks::Chain>& TokenMasks::ChainsOf(StackId stack) {
  if (chains_.size() > kMaxChainLists) chains_.clear();
  if (const auto known = chains_.find(stack); known != chains_.end()) return known->second;
  std::vector<Chain> chains;
  bool too_many = false;
  Stacks& stacks = machine_->stacks();
  const std::vector<Caller> callers(stacks.callers(stack).begin(), stacks.callers(stack).end());
  for (const Caller& caller : callers) {
    if (caller.pc == kReturnPc) {
      chains.push_back({caller.rest, kOpenCaller});
      continue;
    }
    if (caller.counts == 0) {
      chains.push_back({stacks.Single(caller), kOpenCaller});
      continue;
    }
    const std::vector<std::uint32_t> counts = AlikeCounts(caller);
    const std::vector<Chain> below = ChainsOf(caller.rest);
    too_many |= below.size() > kMaxChains || chains.size() > kMaxChains;
    if (too_many) break;
    for (const Chain& chain : below) {
      for (const std::uint32_t count : counts) {
        chains.push_back({chain.caller, stacks.Push(chain.above, caller.pc, {{count, count}})});
      }
    }
  }
  std::ranges::sort(chains);
  chains.erase(std::unique(chains.begin(), chains.end()), chains.end());
  if (too_many) chains.resize(kMaxChains + 1);
  return chains_[stack] = std::move(chains);
}

/// Counts that no common token can tell from those of the caller: what matters is which limits of
/// the loop are near enough to be reached within one.
std::vector<std::uint32_t> TokenMasks::AlikeCounts(const Caller& caller) const {
  const Instruction& loop = machine_->program().code[caller.pc];
  constexpr std::uint32_t kLongest = TokenTrie::kCommonBytes;
  const std::uint32_t near_min = loop.min > kLongest ? loop.min - kLongest : 0;
  std::vector<std::uint32_t> alike;
  for (const auto& [first, last] : machine_->stacks().counts(caller.counts)) {
    std::uint32_t count = first;
    if (count < near_min) {
      if (alike.empty()) alike.push_back(1);
      count = near_min;
    }
    for (; count <= last; ++count) {
      const bool far = count >= loop.min && loop.max - count >= kLongest;
      alike.push_back(far ? std::max<std::uint32_t>(loop.min, std::min<std::uint32_t>(count, 1))
                          : count);
    }
  }
  return alike;
}

const TokenMasks::Part* TokenMasks::PartOf(StateId state) {
  if (machine_->spent()) return nullptr;
  if (const auto known = parts_.find(state); known != parts_.end()) return &known->second;
  Part part;
  Mask all = EmptyMask();
  Reach reach{.exits = &part.exits};
  part.trie = &AddSlice(state, all, reach);
  if (!Walk(*part.trie, 0, state, all, reach)) return nullptr;
  part.depth = reach.depth;
  part.tokens = Pack(all);
  part_bytes_ += part.tokens.bytes() + part.exits.size() * sizeof(std::uint32_t);
  return &parts_.emplace(state, std::move(part)).first->second;
}

/// Adds the slice whose characters the state treats alike, if there is one, and gives the trie of
/// what is left to be walked.
const TrieNodes& TokenMasks::AddSlice(StateId state, Mask& mask, Reach& reach) {
  for (std::size_t i = 0; i < slice_chars_.size(); ++i) {
    const TokenSlice& slice = trie_->slices()[i];
    StateId place = state;
    std::size_t chars = 0;
    std::optional<StateId> next;
    while ((next = AfterAnyChar(slice_chars_[i], place)) && *next != kDeadState) {
      reach.depth = std::max(reach.depth, machine_->depth(*next));
      ++chars;
      if (*next == place) chars = TokenSlice::kMaxChars;
      if (chars == TokenSlice::kMaxChars) break;
      place = *next;
    }
    if (!next) continue;
    const std::span<const std::uint64_t> tokens = slice.UpTo(chars);
    for (std::size_t word = 0; word < mask.size(); ++word) mask[word] |= tokens[word];
    return slice.others();
  }
  return trie_->common();
}

/// The state that all these characters lead to, kDeadState too; nullopt when they lead to several,
/// or out of the call.
std::optional<StateId> TokenMasks::AfterAnyChar(const std::vector<CharBytes>& chars,
                                                StateId state) {
  std::optional<StateId> common;
  for (const CharBytes& bytes : chars) {
    std::vector<StateId> places = {state};
    for (const std::vector<std::uint8_t>& choices : bytes) {
      std::vector<StateId> next;
      for (const StateId place : places) {
        for (const std::uint8_t byte : choices) next.push_back(machine_->Step(place, byte));
      }
      std::ranges::sort(next);
      next.erase(std::unique(next.begin(), next.end()), next.end());
      places = std::move(next);
    }
    if (places.size() > 1 || (common && *common != places.front())) return std::nullopt;
    common = places.front();
  }
  if (machine_->spent() || machine_->leaves(*common)) return std::nullopt;
  return common;
}

/// Adds the tokens below `node` that are read from `state`, which is the one at `node`. False when
/// the machine is spent.
bool TokenMasks::Walk(const TrieNodes& trie, std::uint32_t node, StateId state, Mask& mask,
                      Reach& reach) {
  const std::span<const TrieNodes::Node> nodes = trie.nodes();
  path_[nodes[node].depth] = state;
  const std::uint32_t end = nodes[node].end;
  std::uint32_t visited = 0;
  for (std::uint32_t i = node + 1; i < end;) {
    const TrieNodes::Node& at = nodes[i];
    const StateId next = machine_->Step(path_[at.depth - 1u], at.byte);
    if (++visited % 1024 == 0) machine_->Charge(128);  // a step costs less than a place
    if (next == kDeadState) {
      if (machine_->spent()) return false;
      i = at.end;
      continue;
    }
    path_[at.depth] = next;
    for (const TokenId token : trie.TokensAt(i)) SetBit(mask, token);
    reach.depth = std::max(reach.depth, machine_->depth(next));
    if (reach.exits != nullptr && at.end > i + 1 && machine_->leaves(next)) {
      reach.exits->push_back(i);
    }
    ++i;
  }
  return !machine_->spent();
}

TokenMasks::TokenSet TokenMasks::Pack(const Mask& mask) {
  std::size_t count = 0;
  for (const std::uint64_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
  TokenSet set;
  if (count * sizeof(TokenId) >= mask.size() * sizeof(std::uint64_t)) {
    set.words = mask;
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

/// For each kind of character, and each of its bytes, one byte of every class that it may be.
std::vector<TokenMasks::CharBytes> TokenMasks::CharBytesOf(const TokenSlice& slice,
                                                           const Program& program) {
  std::vector<CharBytes> chars;
  for (const ByteSequence& sequence : slice.chars()) {
    CharBytes& bytes = chars.emplace_back();
    for (const ByteRange& range : sequence) {
      std::vector<std::uint8_t>& choices = bytes.emplace_back();
      ByteSet seen;
      for (std::size_t byte = range.first; byte <= range.last; ++byte) {
        const std::uint8_t byte_class = program.class_of[byte];
        if (!seen[byte_class]) choices.push_back(static_cast<std::uint8_t>(byte));
        seen.set(byte_class);
      }
    }
  }
  return chars;
}

}  // namespace kv8
