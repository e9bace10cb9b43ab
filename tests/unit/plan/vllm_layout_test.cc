// Every published figure of the hybrid paged layout.
#include "plan/vllm_layout.h"

#include <gtest/gtest.h>

#include "family/shard.h"
#include "support/released_config.h"

namespace kv8 {
namespace {

/// The pool of the rank that has the fewest blocks.
VllmPool Smallest(const ShardCounts& shards, const VllmOptions& options, std::int64_t bytes) {
  const ModelSpec spec = test::ReleasedSpec();
  VllmPool smallest{.blocks = INT64_MAX};
  for (int stage = 0; stage < shards.pipeline; ++stage) {
    const ModelSpec rank = SpecOf(spec, ShardOf(spec, shards, stage, 0).value());
    const VllmPool pool = VllmPoolOf(spec, rank, options, bytes);
    if (pool.blocks < smallest.blocks) smallest = pool;
  }
  return smallest;
}

struct Published {
  ShardCounts shards;
  VllmOptions options;
  std::int64_t pool_bytes, block_tokens, fixed_blocks, blocks, tokens;
};

class PublishedPool : public testing::TestWithParam<Published> {};

TEST_P(PublishedPool, IsReproduced) {
  const Published& p = GetParam();
  const VllmPool pool = Smallest(p.shards, p.options, p.pool_bytes);
  EXPECT_EQ(pool.block_tokens, p.block_tokens);
  EXPECT_EQ(pool.fixed_blocks, p.fixed_blocks);
  EXPECT_EQ(pool.blocks, p.blocks);
  EXPECT_EQ(pool.tokens, p.tokens);
}

using enum KvDType;
constexpr ShardCounts kTp4{.tensor = 4};
constexpr ShardCounts kTp2Pp2{.pipeline = 2, .tensor = 2};
constexpr VllmOptions kMtp3Fp16{kFp16, 3, true, 262144}, kMtp3E4m3{kE4M3, 3, true, 262144};
constexpr VllmOptions kMtp0Fp16{kFp16, 0, false, 131328}, kMtp0E4m3{kE4M3, 0, false, 131328};

INSTANTIATE_TEST_SUITE_P(
    V100x4, PublishedPool,
    testing::Values(Published{kTp4, kMtp3E4m3, 6'553'497'600, 1600, 21, 547, 775'096},
                    Published{kTp4, kMtp3Fp16, 6'528'870'400, 800, 21, 577, 433'401},
                    Published{kTp4, kMtp3Fp16, 6'553'497'600, 800, 21, 579, 434'903},
                    Published{kTp4, kMtp0E4m3, 6'838'788'096, 1568, 5, 631, 931'100},
                    Published{kTp4, kMtp0Fp16, 6'837'583'872, 784, 5, 668, 507'093}));
// Of each GPU 2.9e9 bytes for TP4, 4.1e9 for TP2 x PP2, as their owner states.
INSTANTIATE_TEST_SUITE_P(
    Rtx3090x4, PublishedPool,
    testing::Values(Published{kTp4, kMtp3E4m3, 2'900'000'000, 1600, 21, 242, 342'912},
                    Published{kTp2Pp2, kMtp3E4m3, 4'100'000'000, 3200, 21, 317, 806'792}));

TEST(VllmLayout, BlocksOfMoreDrafts) {
  const VllmOptions fp16{kFp16, 4, true, 262144}, e4m3{kE4M3, 4, true, 262144};
  EXPECT_EQ(Smallest(kTp4, fp16, 1 << 30).block_tokens, 816);
  EXPECT_EQ(Smallest(kTp4, e4m3, 1 << 30).block_tokens, 1616);
  EXPECT_EQ(Smallest(kTp4, e4m3, 1 << 30).fixed_blocks, 25);
  EXPECT_EQ(Smallest(kTp4, {kE4M3, 0, true, 262144}, 1 << 30).fixed_blocks, 9);
}

}  // namespace
}  // namespace kv8
