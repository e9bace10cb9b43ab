// Which tokens may come next in a state of a machine, and what was found out about that before.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/machine.h"
#include "grammar/token_trie.h"

namespace kv8 {

/// A mask is put together from parts that do not depend on callers: what is allowed from the ways
/// inside one call is found once, whoever called, and only tokens that go past its end are tried
/// for each caller. So a string in a deeply nested object costs what it costs at the top. The few
/// long tokens are tried one by one, so that only near limits of counted loops matter to a part.
class TokenMasks {
 public:
  /// Both must outlive the masks.
  TokenMasks(const TokenTrie& trie, Machine& machine) : trie_(&trie), machine_(&machine) {}

  /// Sets the bits of all tokens that some way of `state` reads. mask: all clear, one bit for each
  /// token id; ids past its end are left out.
  void Fill(StateId state, std::span<std::uint64_t> mask);

 private:
  /// Most memory of kept masks, of each kind; then they are forgotten and found again.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

  /// As ids where they are few, else as a mask.
  struct TokenSet {
    std::vector<TokenId> few;
    std::vector<std::uint64_t> words;

    void AddTo(std::span<std::uint64_t> mask) const;
    std::size_t bytes() const { return few.size() * 4 + words.size() * 8; }
  };

  /// From ways above kOpenCaller.
  struct Part {
    TokenSet tokens;
    std::vector<std::uint32_t> exits;  // nodes at which the call may be over
  };

  void Find(StateId state, std::span<std::uint64_t> mask);
  const Part& PartOf(StateId state);
  FrameId Detach(FrameId frame, FrameId& caller);
  std::uint32_t AlikeCount(const Frame& frame) const;
  void Walk(std::uint32_t node, StateId state, std::span<std::uint64_t> mask,
            std::vector<std::uint32_t>* exits);
  static TokenSet Pack(std::span<const std::uint64_t> mask);

  const TokenTrie* trie_;
  Machine* machine_;
  std::unordered_map<StateId, TokenSet> whole_;
  std::unordered_map<StateId, Part> parts_;
  std::size_t whole_bytes_ = 0;
  std::size_t part_bytes_ = 0;
  std::vector<StateId> path_;  // working memory
};

}  // namespace kv8
