#include "family/ple_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using testing::ElementsAre;

PleConfig ReleasedModel() {
  return {.layers = {1},
          .embed_dim = 2560,
          .conv_kernel = 4,
          .ngram_size = 3,
          .heads_per_ngram = 8,
          .vocab_base = 20'000'000,
          .vocab_divisor = 128,
          .seed = 1234,
          .parts = 128};
}

/// The numbers stored in the released checkpoint.
TEST(DerivePleConstants, ReproducesTheReleasedModel) {
  const auto constants = DerivePleConstants(ReleasedModel(), 248320, 0);
  EXPECT_THAT(constants.hash.multipliers,
              ElementsAre(23703573157769, 20109073645365, 8052911324071));
  EXPECT_THAT(
      constants.hash.head_sizes,
      ElementsAre(20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                  20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171));
  EXPECT_THAT(constants.hash.offsets,
              ElementsAre(0, 20000003, 40000026, 60000059, 80000106, 100000165, 120000228,
                          140000297, 160000374, 180000455, 200000548, 220000655, 240000802,
                          260000955, 280001114, 300001275));
  EXPECT_EQ(constants.rows, 320001446);
  EXPECT_EQ(constants.padded_rows, 320001536);
}

TEST(DerivePleConstants, LaterLayersGoOnWhereEarlierOnesStopped) {
  PleConfig ple = ReleasedModel();
  ple.vocab_base = 2;
  ple.heads_per_ngram = 2;
  const auto first = DerivePleConstants(ple, 1000, 0);
  const auto second = DerivePleConstants(ple, 1000, 1);
  EXPECT_THAT(first.hash.head_sizes, ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(second.hash.head_sizes, ElementsAre(11, 13, 17, 19));
  EXPECT_THAT(second.hash.offsets, ElementsAre(0, 11, 24, 41));
  EXPECT_NE(first.hash.multipliers, second.hash.multipliers);
}

TEST(DerivePleConstants, ProductsWithTokenIdsStayBelowTwoToThe63) {
  PleConfig ple = ReleasedModel();
  for (const int vocab : {1, 2, 3, 6144, 248320, 1 << 24}) {
    for (ple.seed = 0; ple.seed < 20; ++ple.seed) {
      for (const std::int64_t m : DerivePleConstants(ple, vocab, 0).hash.multipliers) {
        EXPECT_EQ(m % 2, 1);
        std::int64_t product = 0;
        EXPECT_FALSE(__builtin_mul_overflow(m, std::int64_t{vocab} - 1, &product));
      }
    }
  }
}

}  // namespace
}  // namespace kv8
