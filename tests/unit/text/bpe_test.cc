#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace kv8 {
namespace {

/// A vocabulary over the bytes a to d, with random merges.
struct RandomMerges {
  std::vector<std::string> pieces;
  std::array<TokenId, 256> byte_tokens{};
  std::vector<BpeMerge> merges;

  explicit RandomMerges(int seed) {
    std::mt19937 rng(seed);
    for (int byte = 0; byte < 256; ++byte) {
      byte_tokens[byte] = byte;
      pieces.emplace_back(1, static_cast<char>(byte));
    }
    std::vector<TokenId> usable{'a', 'b', 'c', 'd'};
    std::map<std::string, TokenId> ids;
    std::set<std::pair<TokenId, TokenId>> used;
    while (merges.size() < 60) {
      const TokenId left = usable[rng() % usable.size()];
      const TokenId right = usable[rng() % usable.size()];
      if (!used.emplace(left, right).second) continue;
      const std::string joined = pieces[left] + pieces[right];
      const auto [it, is_new] = ids.emplace(joined, static_cast<TokenId>(pieces.size()));
      if (is_new) {
        pieces.push_back(joined);
        usable.push_back(it->second);
      }
      merges.push_back({left, right, it->second});
    }
  }
};

/// The definition: apply the merge of lowest rank, leftmost first, until there is none.
std::vector<TokenId> Oracle(const RandomMerges& model, std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(model.byte_tokens[static_cast<unsigned char>(c)]);
  for (;;) {
    std::size_t best_rank = model.merges.size();
    std::size_t best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (model.merges[rank].left == ids[i] && model.merges[rank].right == ids[i + 1]) {
          best_rank = rank;
          best_at = i;
        }
      }
    }
    if (best_rank == model.merges.size()) return ids;
    ids[best_at] = model.merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

// Lengths on both sides of the change from scanning to the heap.
TEST(Bpe, EqualsTheDefinition) {
  for (int seed = 0; seed < 20; ++seed) {
    const RandomMerges model(seed);
    const Bpe bpe(model.byte_tokens, model.merges, model.pieces);
    std::mt19937 rng(seed);
    for (const std::size_t size : {0, 1, 2, 3, 5, 8, 15, 16, 17, 40, 63, 64, 65, 66, 100, 300}) {
      std::string text;
      while (text.size() < size) text.push_back(static_cast<char>('a' + rng() % 4));
      std::vector<TokenId> ids;
      bpe.Encode(text, ids);
      EXPECT_EQ(ids, Oracle(model, text)) << "seed " << seed << ", text " << text;
    }
  }
}

TEST(Bpe, AppendsToWhatIsThere) {
  const RandomMerges model(1);
  const Bpe bpe(model.byte_tokens, model.merges, model.pieces);
  std::vector<TokenId> ids{7};
  bpe.Encode("e", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{7, 'e'}));
}

// Quadratic work on this would take hours.
TEST(Bpe, OneVeryLongPieceIsFine) {
  const RandomMerges model(2);
  const Bpe bpe(model.byte_tokens, model.merges, model.pieces);
  std::string text;
  for (int i = 0; i < 1 << 20; ++i) text.push_back("abcd"[(i % 1021 * i % 1021 + i / 3) % 4]);
  std::vector<TokenId> ids;
  bpe.Encode(text, ids);
  std::string joined;
  for (const TokenId id : ids) joined += model.pieces[id];
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace kv8
