// The plan of all ops' scratch; what each op takes of it is tested with the op.
#include "ops/cpu/scratch_plan.h"

#include <gtest/gtest.h>

#include "ops/cpu/product.h"
#include "ops/op_table.h"

namespace kv8 {
namespace {

/// The dimensions of the released model.
OpSizes Released(std::int64_t rows, int threads) {
  OpSizes sizes{.threads = threads,
                .rows = rows,
                .sequences = 1,
                .sequence_selection_blocks = 262144 / 4,
                .linear_rows = 4 * rows,
                .linear_cols = 6144,
                .hidden = 2560,
                .streams = 4,
                .lowrank = 320,
                .gdn = {16, 48, 128, 128, 4},
                .moe = {512, 10, 640, 640},
                .ple = PleConfig{}};
  sizes.qsa = {.query_heads = 24,
               .kv_heads = 2,
               .head_dim = 256,
               .rotary_dim = 64,
               .index_heads = 4,
               .index_dim = 128,
               .selection_block_tokens = 4,
               .budget_selection_blocks = 512};
  sizes.ple->embed_dim = 2560;
  sizes.ple->conv_kernel = 4;
  sizes.ple->ngram_size = 3;
  sizes.ple->heads_per_ngram = 8;
  return sizes;
}

/// The experts take most: for each of a row's ten routes its input, both halves of the hidden
/// layer and its output.
TEST(ScratchPlan, AtReleasedDimensions) {
  const ScratchSize size = simd::PlanScratch(Released(513, 16));
  constexpr std::int64_t kFloats = 513 * (512 + 1 + 10 * (2560 + 1280 + 2560 + 1) + 1280 + 2560);
  constexpr std::int64_t kLists = 2 * 513 * 10 * 4 + 513 * 4;
  constexpr auto kProducts = static_cast<std::int64_t>((2 * 512 + 2) * sizeof(simd::Product));
  EXPECT_NEAR(static_cast<double>(size.shared), 4.0 * kFloats + kLists + kProducts, 12 * 256);
  EXPECT_EQ(size.bytes(16), size.shared + 16 * size.per_thread);
  EXPECT_LT(size.per_thread, 12 << 20);
}

/// What a thread takes does not grow with the rows of a step beyond a piece of the mix.
TEST(ScratchPlan, ThreadsTakeTheSameForAnyManyRows) {
  const ScratchSize some = simd::PlanScratch(Released(2048, 4));
  const ScratchSize more = simd::PlanScratch(Released(8192, 4));
  EXPECT_EQ(some.per_thread, more.per_thread);
  EXPECT_GT(more.shared, 3 * some.shared);
}

TEST(ScratchPlan, ThePlainOpsPlanNone) {
  EXPECT_EQ(FindOps("reference").value()->scratch(Released(64, 1)).bytes(1), 0);
}

}  // namespace
}  // namespace kv8
