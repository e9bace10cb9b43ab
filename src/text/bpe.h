// Byte pair encoding of one piece of text: merge the adjacent pair of lowest rank until none is
// left.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/types.h"
#include "text/flat_map.h"
#include "text/whole_pieces.h"

namespace kv8 {

/// `left` followed by `right` may become `result`. A merge's rank is its place in the list.
struct BpeMerge {
  TokenId left;
  TokenId right;
  TokenId result;
};

/// Immutable after construction, so one instance serves all threads.
class Bpe {
 public:
  /// `byte_tokens[b]` is the token of byte b alone; `pieces[id]` the bytes of token id.
  /// No pair may occur twice in `merges`.
  Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const BpeMerge> merges,
      std::span<const std::string> pieces);

  /// Names a pair of tokens in one word.
  static constexpr std::uint64_t PairKey(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }

  /// Appends the tokens of `piece` to `out`. O(n log n) in the length of the piece.
  void Encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Ranked {
    std::uint32_t rank;
    TokenId result;
  };

  static constexpr std::uint32_t kNoMerge = ~std::uint32_t{0};

  Ranked Find(TokenId left, TokenId right) const;
  void EncodeShort(std::string_view piece, std::vector<TokenId>& out) const;
  void EncodeLong(std::string_view piece, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_tokens_;
  FlatMap<Ranked> merges_;

  // Pieces that merge into one token, as most pieces of real text do, are looked up whole.
  WholePieces whole_;
};

}  // namespace kv8
