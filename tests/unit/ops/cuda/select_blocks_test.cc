// Index scores and the choice of blocks on the GPU against the oracle.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "ops/cpu/reference.h"
#include "unit/ops/cuda/paged_batch.h"

namespace kv8::cuda {
namespace {

using CudaSelectBlocks = CudaTest;

QsaConfig Config(int index_heads, int index_dim, int budget) {
  QsaConfig config;
  config.query_heads = config.kv_heads = 1;
  config.head_dim = 64;
  config.index_heads = index_heads;
  config.index_dim = index_dim;
  config.selection_block_tokens = 4;
  config.budget_selection_blocks = budget;
  return config;
}

/// Integer operands make every score exact in FP32, so the choice must be the oracle's, ties
/// included.
struct Case {
  Case(const QsaConfig& config, std::vector<RowsOf> sequences, int limit)
      : batch(config, KvDType::kFp16, std::move(sequences)),
        query(RandomIntegers(batch.rows() * config.index_heads * config.index_dim, 1, limit)) {
    const std::vector<QsaSlice> slices = batch.Slices();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const std::int64_t blocks = batch.sequences[i].tokens / 4;
      const std::vector<float> keys =
          RandomIntegers(blocks * config.index_dim, static_cast<std::uint32_t>(17 + i), limit);
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (std::int64_t d = 0; d < config.index_dim; ++d) {
          StoreKvElement(KvDType::kFp16, keys[static_cast<std::size_t>(b * config.index_dim + d)],
                         1.0f, slices[i].index.At(b), d);
        }
      }
    }
  }

  struct Choice {
    std::vector<std::int32_t> blocks, counts;
    bool operator==(const Choice&) const = default;
  };
  Choice Empty() const {
    const auto rows = static_cast<std::size_t>(batch.rows());
    const auto budget = static_cast<std::size_t>(batch.config.budget_selection_blocks);
    return {std::vector<std::int32_t>(rows * budget, -1), std::vector<std::int32_t>(rows, -1)};
  }
  Choice Expected() {
    Choice choice = Empty();
    ThreadPool pool(1);
    const QsaConfig& c = batch.config;
    const std::int64_t width = std::int64_t{c.index_heads} * c.index_dim;
    reference::SelectBlocks({pool}, c, ConstMatrix(query.data(), batch.rows(), width),
                            batch.Slices(), {choice.blocks, choice.counts});
    return choice;
  }

  PagedBatch batch;
  std::vector<float> query;
};

struct Selection {
  Selection(Device& device, DeviceStream& stream, const CudaOps& ops, const Case& test)
      : pages(device, stream, test.batch),
        query(device, stream, test.query),
        blocks(device, stream, test.Empty().blocks),
        counts(device, stream, test.Empty().counts) {
    std::int64_t most = 4;
    for (const RowsOf& s : test.batch.sequences) most = std::max(most, s.tokens / 4);
    most = (most + 3) / 4 * 4;
    const std::vector<float> nan(static_cast<std::size_t>(test.batch.rows() * most), NAN);
    scores.emplace(device, stream, nan);
    const QsaConfig& c = test.batch.config;
    const SelectBlocksArgs args{.rows = pages.Rows(),
                                .tables = pages.Tables(),
                                .index = pages.Index(),
                                .index_heads = c.index_heads,
                                .selection_block_tokens = c.selection_block_tokens,
                                .budget_selection_blocks = c.budget_selection_blocks,
                                .max_selection_blocks = static_cast<std::int32_t>(most),
                                .index_query = query.data(),
                                .scores = scores->data(),
                                .blocks = blocks.data(),
                                .counts = counts.data()};
    const Result<void> launched = ops.SelectBlocks(stream, args);
    EXPECT_TRUE(launched.ok()) << launched.error().ToString();
  }
  Case::Choice Read() const { return {blocks.Read(), counts.Read()}; }

  DeviceBatch pages;
  OnDevice<float> query;
  OnDevice<std::int32_t> blocks, counts;
  std::optional<OnDevice<float>> scores;
};

TEST_F(CudaSelectBlocks, MatchesTheOracleToTheTie) {
  for (const QsaConfig& config :
       {Config(4, 128, 512), Config(4, 64, 64), Config(1, 64, 3), Config(3, 128, 20)}) {
    for (const int limit : {1, 7}) {  // 1: few distinct scores, so ties at the edge
      Case test(config, {{1, 1}, {16, 3}, {2051, 2}, {2052, 4}, {9001, 3}, {270, 5}}, limit);
      const Selection run(device(), stream(), ops(), test);
      const Case::Choice expected = test.Expected(), actual = run.Read();
      EXPECT_EQ(actual.counts, expected.counts);
      EXPECT_EQ(actual.blocks, expected.blocks)
          << config.index_dim << " " << config.budget_selection_blocks;
    }
  }
}

TEST_F(CudaSelectBlocks, LongContexts) {
  Case test(Config(4, 128, 512), {{262'144, 1}, {131'075, 1}}, 3);
  const Selection run(device(), stream(), ops(), test);
  EXPECT_EQ(run.Read(), test.Expected());
}

TEST_F(CudaSelectBlocks, EqualScoresGoToTheLowerBlocks) {
  Case test(Config(4, 64, 64), {{4000, 2}}, 2);
  std::fill(test.query.begin(), test.query.end(), 0.0f);
  const Selection run(device(), stream(), ops(), test);
  const Case::Choice actual = run.Read();
  for (std::int32_t i = 0; i < 64; ++i) ASSERT_EQ(actual.blocks[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(actual, test.Expected());
}

TEST_F(CudaSelectBlocks, NaNsRankBelowEveryNumber) {
  Case test(Config(4, 64, 64), {{400, 1}}, 2);
  const QsaSlice slice = test.batch.Slices()[0];
  for (std::int64_t b = 0; b < 100; b += 2) {
    StoreKvElement(KvDType::kFp16, NAN, 1.0f, slice.index.At(b), 7);
  }
  const Selection run(device(), stream(), ops(), test);
  EXPECT_EQ(run.Read(), test.Expected());
}

/// Random reals: what is chosen may differ from the oracle only where scores agree to FP32's error.
TEST_F(CudaSelectBlocks, RandomScoresDifferOnlyAtTheEdge) {
  const QsaConfig config = Config(4, 128, 512);
  Case test(config, {{20'000, 4}}, 1);
  test.query = RandomValues(static_cast<std::int64_t>(test.query.size()), 4, 30.0f);
  const QsaSlice slice = test.batch.Slices()[0];
  const std::vector<float> keys = RandomValues(5000 * 128, 5);
  for (std::int64_t b = 0; b < 5000; ++b) {
    for (std::int64_t d = 0; d < 128; ++d) {
      StoreKvElement(KvDType::kFp16, keys[static_cast<std::size_t>(b * 128 + d)], 1.0f,
                     slice.index.At(b), d);
    }
  }
  const Selection run(device(), stream(), ops(), test);
  const Case::Choice actual = run.Read(), expected = test.Expected();
  std::size_t same = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * 512);
    std::vector<std::int32_t> both;
    std::set_intersection(actual.blocks.begin() + begin, actual.blocks.begin() + begin + 512,
                          expected.blocks.begin() + begin, expected.blocks.begin() + begin + 512,
                          std::back_inserter(both));
    same += both.size();
  }
  EXPECT_GE(same, 4 * 512 - 2u);
}

TEST_F(CudaSelectBlocks, PaddingRowsAreLeftAlone) {
  Case test(Config(4, 64, 8), {{400, 3}}, 2);
  const Case::Choice expected = test.Expected();
  test.batch.row_sequence[1] = -1;
  const Selection run(device(), stream(), ops(), test);
  const Case::Choice actual = run.Read();
  EXPECT_EQ(actual.counts[1], -1);
  EXPECT_EQ(actual.blocks[8], -1);
  EXPECT_EQ(actual.blocks[16], expected.blocks[16]);
}

}  // namespace
}  // namespace kv8::cuda
