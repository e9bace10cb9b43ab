// Which tokens may come next in a state of a machine, and what was found out about that before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/machine.h"
#include "grammar/token_trie.h"

namespace kv8 {

/// A mask is put together from parts that do not depend on callers: what is allowed from the ways
/// inside one call is found once, whoever called, and only tokens that go past its end are tried
/// for each caller. So a string in a deeply nested object costs what it costs at the top. Ways in
/// different iterations of a loop are parts of their own, so that there are few, however many sets
/// of iterations there are. The few long tokens are tried one by one, so that only near limits of
/// counted loops matter to a part.
class TokenMasks {
 public:
  /// Both must outlive the masks.
  TokenMasks(const TokenTrie& trie, Machine& machine);

  /// The tokens that some way of `state` reads, one bit for each id; null when the machine was
  /// spent before all were found. Valid until the next call.
  const std::vector<std::uint64_t>* Find(StateId state);

 private:
  /// Most memory of kept masks, of each kind; then they are forgotten and found again.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  // What is worth parts of its own: chains of one stack, and ways by chain of one state.
  static constexpr std::size_t kMaxChains = 256;
  static constexpr std::size_t kMaxDetached = 16'384;
  static constexpr std::size_t kMaxChainLists = 4096;  // kept

  using Mask = std::vector<std::uint64_t>;
  /// Choices for each byte of one kind of character.
  using CharBytes = std::vector<std::vector<std::uint8_t>>;

  /// As ids where they are few, else as a mask.
  struct TokenSet {
    std::vector<TokenId> few;
    Mask words;

    void AddTo(Mask& mask) const;
    std::size_t bytes() const { return few.size() * 4 + words.size() * 8; }
  };

  /// From ways above kOpenCaller.
  struct Part {
    TokenSet tokens;
    const TrieNodes* trie = nullptr;   // in which the exits are
    std::vector<std::uint32_t> exits;  // nodes at which the call may be over
    std::uint32_t depth = 0;           // of the deepest stack on the way
  };

  /// One chain of a stack, down to the first call, and what is below it.
  struct Chain {
    StackId caller = kNoCaller;
    StackId above = kOpenCaller;  // the chain on kOpenCaller

    auto operator<=>(const Chain&) const = default;
  };

  /// What walks come upon.
  struct Reach {
    std::uint32_t depth = 0;  // of the deepest stack
    std::vector<std::uint32_t>* exits = nullptr;
  };

  bool AddParts(StateId state, Mask& mask);
  std::optional<std::vector<std::pair<Chain, Pc>>> Detach(StateId state);
  const std::vector<Chain>& ChainsOf(StackId stack);
  std::vector<std::uint32_t> AlikeCounts(const Caller& caller) const;
  const Part* PartOf(StateId state);
  const TrieNodes& AddSlice(StateId state, Mask& mask, Reach& reach);
  std::optional<StateId> AfterAnyChar(const std::vector<CharBytes>& chars, StateId state);
  bool Walk(const TrieNodes& trie, std::uint32_t node, StateId state, Mask& mask, Reach& reach);
  Mask EmptyMask() const;
  static TokenSet Pack(const Mask& mask);
  static std::vector<CharBytes> CharBytesOf(const TokenSlice& slice, const Program& program);

  const TokenTrie* trie_;
  Machine* machine_;
  std::vector<std::vector<CharBytes>> slice_chars_;  // by slice
  std::unordered_map<StateId, TokenSet> whole_;
  std::unordered_map<StateId, Part> parts_;
  std::unordered_map<StackId, std::vector<Chain>> chains_;
  std::size_t whole_bytes_ = 0;
  std::size_t part_bytes_ = 0;
  Mask result_;
  std::vector<StateId> path_;  // working memory
};

}  // namespace kv8
