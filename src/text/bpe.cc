#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace kv8 {
namespace {

/// Longest piece, in bytes, for which scanning all pairs for the best beats a heap.
constexpr std::size_t kMaxShortPiece = 64;

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const BpeMerge> merges,
         std::span<const std::string> pieces)
    : byte_tokens_(byte_tokens), merges_(merges.size()), whole_(pieces.size()) {
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    merges_.Insert(PairKey(merge.left, merge.right), {rank, merge.result});
  }
  // A token is not always what its own bytes encode to, so each is tried. Two tokens cannot both
  // be the encoding of one string.
  std::vector<TokenId> tokens;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty() || pieces[id].size() > WholePieces::kMaxBytes) continue;
    tokens.clear();
    EncodeShort(pieces[id], tokens);
    if (tokens.size() == 1 && tokens[0] == static_cast<TokenId>(id)) {
      whole_.Insert(pieces[id], tokens[0]);
    }
  }
}

void Bpe::Encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (const TokenId id = whole_.Find(piece); id != WholePieces::kNone) {
    out.push_back(id);
  } else if (piece.size() <= kMaxShortPiece) {
    EncodeShort(piece, out);
  } else {
    EncodeLong(piece, out);
  }
}

Bpe::Ranked Bpe::Find(TokenId left, TokenId right) const {
  const Ranked* merge = merges_.Find(PairKey(left, right));
  return merge != nullptr ? *merge : Ranked{kNoMerge, 0};
}

void Bpe::EncodeShort(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kMaxShortPiece> ids;
  std::array<Ranked, kMaxShortPiece> pairs;  // pairs[i]: the merge of ids[i] and ids[i + 1]
  std::size_t size = piece.size();
  for (std::size_t i = 0; i < size; ++i) {
    ids[i] = byte_tokens_[static_cast<std::uint8_t>(piece[i])];
    if (i > 0) pairs[i - 1] = Find(ids[i - 1], ids[i]);
  }
  while (size > 1) {
    const auto last_pair = pairs.begin() + size - 1;
    const auto best = std::min_element(pairs.begin(), last_pair,
                                       [](Ranked a, Ranked b) { return a.rank < b.rank; });
    if (best->rank == kNoMerge) break;
    const std::size_t i = best - pairs.begin();
    ids[i] = best->result;
    std::copy(ids.begin() + i + 2, ids.begin() + size, ids.begin() + i + 1);
    std::copy(best + 1, last_pair, best);
    --size;
    if (i + 1 < size) pairs[i] = Find(ids[i], ids[i + 1]);
    if (i > 0) pairs[i - 1] = Find(ids[i - 1], ids[i]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + size);
}

/// The same merges in the same order, by a heap of (rank, position). An entry is stale, and
/// skipped, when the pair at its position has another rank by now.
void Bpe::EncodeLong(std::string_view piece, std::vector<TokenId>& out) const {
  struct Symbol {
    TokenId id;
    std::uint32_t previous;
    std::uint32_t next;
    Ranked pair;  // with the next symbol; kNoMerge also for a symbol that was merged away
  };
  const auto size = static_cast<std::uint32_t>(piece.size());
  std::vector<Symbol> symbols(size);
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap;
  const auto rank_pair = [&](std::uint32_t at) {
    Symbol& symbol = symbols[at];
    symbol.pair =
        symbol.next < size ? Find(symbol.id, symbols[symbol.next].id) : Ranked{kNoMerge, 0};
    if (symbol.pair.rank != kNoMerge) heap.push(std::uint64_t{symbol.pair.rank} << 32 | at);
  };

  for (std::uint32_t i = 0; i < size; ++i) {
    const TokenId id = byte_tokens_[static_cast<std::uint8_t>(piece[i])];
    symbols[i] = {id, i - 1, i + 1, {kNoMerge, 0}};
    if (i > 0) rank_pair(i - 1);
  }
  while (!heap.empty()) {
    const auto at = static_cast<std::uint32_t>(heap.top());
    const auto rank = static_cast<std::uint32_t>(heap.top() >> 32);
    heap.pop();
    Symbol& symbol = symbols[at];
    if (symbol.pair.rank != rank) continue;
    symbol.id = symbol.pair.result;
    Symbol& merged = symbols[symbol.next];
    merged.pair.rank = kNoMerge;
    symbol.next = merged.next;
    if (symbol.next < size) symbols[symbol.next].previous = at;
    rank_pair(at);
    if (at > 0) rank_pair(symbol.previous);
  }
  for (std::uint32_t i = 0; i < size; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace kv8
