// Row ids of the released model.
#include "ops/ple_hash.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

constexpr TokenId kEos = 248044;

PleHash ReleasedModel() {
  PleHash hash;
  hash.multipliers = {23703573157769, 20109073645365, 8052911324071};
  hash.head_sizes = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                     20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                     20000153, 20000159, 20000161, 20000171};
  std::int64_t offset = 0;
  for (const std::int64_t size : hash.head_sizes) {
    hash.offsets.push_back(offset);
    offset += size;
  }
  hash.heads_per_ngram = 8;
  hash.eos = kEos;
  return hash;
}

std::vector<std::int64_t> RowIds(std::vector<TokenId> window) {
  std::vector<std::int64_t> rows(16);
  PleRowIds(ReleasedModel(), window, rows);
  return rows;
}

TEST(PleHash, OffsetsOfTheReleasedModel) {
  EXPECT_EQ(ReleasedModel().offsets.back(), 300001275);
}

TEST(PleHash, ThreeTokens) {
  EXPECT_EQ(RowIds({3000, 2000, 1000}),
            (std::vector<std::int64_t>{1531522, 26458325, 48967948, 72533165, 95637132, 116681687,
                                       138257734, 140376286, 167316121, 196780774, 201192701,
                                       239730030, 244538402, 269354175, 284294431, 319007479}));
}

const std::vector<std::int64_t> kFirstToken = {
    1876085,   31308566,  59776718,  71834192,  97499724,  100188615, 134972424, 142751402,
    178377549, 180579936, 219367837, 221375066, 245391246, 270637420, 285992863, 304819575};

TEST(PleHash, FirstTokenOfASequence) {
  EXPECT_EQ(RowIds({kEos, kEos, 1000}), kFirstToken);
}

TEST(PleHash, AnEosHidesWhatIsBeforeIt) {
  EXPECT_EQ(RowIds({3000, kEos, 1000}), kFirstToken);
}

TEST(PleHash, OnlyEos) {
  EXPECT_EQ(RowIds({kEos, kEos, kEos}),
            (std::vector<std::int64_t>{9663979, 26558231, 56120240, 74755659, 80459717, 109265651,
                                       132697467, 151022725, 170054832, 192967038, 200687722,
                                       225763581, 259275737, 272983544, 297596484, 300986548}));
}

/// An eos sees the tokens before it: it cuts the windows of later tokens only.
TEST(PleHash, TheTokenItselfDoesNotCut) {
  const std::vector<std::int64_t> rows = RowIds({3000, 2000, kEos});
  EXPECT_NE(rows, RowIds({3000, kEos, kEos}));
  EXPECT_NE(rows, RowIds({kEos, 2000, kEos}));
}

}  // namespace
}  // namespace kv8
