// The n-gram memory and the embedding against their oracles, and their state.
#include <gtest/gtest.h>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "unit/ops/dense_operands.h"
#include "unit/ops/owned_weights.h"
#include "unit/ops/quantised_weight.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

constexpr TokenId kEos = 0;

struct State {
  std::vector<float> conv;
  std::vector<TokenId> context;
};

struct Case {
  explicit Case(std::int64_t hidden, std::int64_t row_count)
      : dim(hidden),
        rows(row_count),
        key(WeightFormat::kBf16, 4 * dim, 48, 1),
        value(WeightFormat::kBf16, dim, 48, 2) {
    config.embed_dim = 48;
    config.conv_kernel = 4;
    config.ngram_size = 3;
    config.heads_per_ngram = 4;
    weights.hash = {{23703573157769, 20109073645365, 8052911324071},
                    {11, 13, 17, 19, 23, 29, 31, 37},
                    {0, 11, 24, 41, 60, 83, 112, 143},
                    4,
                    kEos};
    for (std::uint32_t s = 0; s < 4; ++s) {
      shards.emplace_back(WeightFormat::kBf16, 45, 6, 10 + s);
      weights.shards.push_back(shards.back().view());
    }
    weights.key = key.view();
    weights.value = value.view();
    weights.gain_key = RandomValues(4 * dim, 3);
    weights.gain_query = RandomValues(4 * dim, 4);
    weights.gain_conv = RandomValues(4 * dim, 5);
    weights.conv = RandomValues(4 * dim * 4, 6);
    streams = RandomValues(rows * 4 * dim, 7);
    std::mt19937 engine(8);
    for (std::int64_t t = 0; t < rows; ++t) ids.push_back(static_cast<TokenId>(engine() % 12));
  }

  State Start() const {
    return {std::vector<float>(static_cast<std::size_t>(9 * 4 * dim)), {kEos, kEos}};
  }

  struct Outcome {
    std::vector<float> streams;
    State state;
  };

  /// One sequence, in calls of `step` rows.
  Outcome Run(PleFn& ple, int threads, std::int64_t step) const {
    Outcome result{streams, Start()};
    ThreadPool pool(threads);
    for (std::int64_t t = 0; t < rows; t += step) {
      const std::int64_t count = std::min(step, rows - t);
      const PleSlice slice{0, count, result.state.conv, result.state.context};
      ple(test::ContextOf(pool), config, weights,
          std::span(ids).subspan(static_cast<std::size_t>(t), static_cast<std::size_t>(count)), {},
          {&slice, 1}, 4, 1e-6f, Matrix(result.streams.data(), rows, 4 * dim).Rows(t, count));
    }
    return result;
  }

  PleConfig config;
  std::int64_t dim, rows;
  StoredWeight key, value;
  std::vector<StoredWeight> shards;
  OwnedPleWeights weights;
  std::vector<float> streams;
  std::vector<TokenId> ids;
};

TEST(Ple, MatchesTheOracle) {
  for (const std::int64_t rows : {1, 2, 9, 40}) {
    for (const std::int64_t dim : {5, 24}) {
      const Case test(dim, rows);
      const Case::Outcome expected = test.Run(reference::Ple, 1, rows);
      ForEachSimdTarget([&] {
        const Case::Outcome out = test.Run(simd::Ple, 1, rows);
        ExpectClose(out.streams, expected.streams, tolerance::kPle);
        ExpectClose(out.state.conv, expected.state.conv, tolerance::kPle);
        EXPECT_EQ(out.state.context, expected.state.context);
      });
    }
  }
}

TEST(Ple, TablesOfCodesMatchTheOracle) {
  for (const QuantisedForm& form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    Case test(24, 9);
    std::vector<QuantisedWeight> shards;
    for (std::uint32_t s = 0; s < 4; ++s) shards.emplace_back(form, 45, 6, 10 + s);
    for (std::size_t s = 0; s < 4; ++s) test.weights.shards[s] = shards[s].view();
    ExpectClose(test.Run(simd::Ple, 2, 9).streams, test.Run(reference::Ple, 1, 9).streams,
                tolerance::kPle);
  }
}

TEST(Ple, BitsDoNotDependOnTheCut) {
  const Case test(24, 40);
  const Case::Outcome all = test.Run(simd::Ple, 1, 40);
  for (const std::int64_t step : {1, 2, 5, 8, 9, 11, 40}) {
    for (const int threads : {1, 2, 3}) {
      const Case::Outcome cut = test.Run(simd::Ple, threads, step);
      ExpectSameBits(cut.streams, all.streams);
      ExpectSameBits(cut.state.conv, all.state.conv);
      EXPECT_EQ(cut.state.context, all.state.context);
    }
  }
}

/// Three sequences in one call, one of them empty, give what each gives alone.
TEST(Ple, SequencesDoNotMix) {
  const Case test(24, 30);
  const std::int64_t counts[] = {13, 0, 17};
  for (PleFn* ple : {&reference::Ple, &simd::Ple}) {
    ThreadPool pool(2);
    std::vector<float> together = test.streams;
    std::vector<State> states(3, test.Start());
    std::vector<PleSlice> slices;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      slices.push_back({begin, counts[i], states[i].conv, states[i].context});
      begin += counts[i];
    }
    (*ple)(test::ContextOf(pool), test.config, test.weights, test.ids, {}, slices, 4, 1e-6f,
           Matrix(together.data(), 30, 4 * test.dim));
    std::vector<float> apart = test.streams;
    for (std::size_t i = 0; i < 3; ++i) {
      State state = test.Start();
      const PleSlice slice{0, counts[i], state.conv, state.context};
      (*ple)(test::ContextOf(pool), test.config, test.weights,
             std::span(test.ids).subspan(static_cast<std::size_t>(slices[i].row_begin),
                                         static_cast<std::size_t>(counts[i])),
             {}, {&slice, 1}, 4, 1e-6f,
             Matrix(apart.data(), 30, 4 * test.dim).Rows(slices[i].row_begin, counts[i]));
      ExpectSameBits(state.conv, states[i].conv);
      EXPECT_EQ(state.context, states[i].context);
    }
    ExpectSameBits(together, apart);
  }
}

TEST(Embed, CopiesTheRowIntoEveryStream) {
  for (const WeightFormat format : kPlainFormats) {
    const StoredWeight table(format, 50, 21, 1);
    std::vector<TokenId> ids;
    for (int t = 0; t < 67; ++t) ids.push_back((t * 7) % 50);
    const auto run = [&](EmbedFn& embed, int threads) {
      std::vector<float> out(67 * 4 * 21);
      ThreadPool pool(threads);
      embed(test::ContextOf(pool), ids, table.view(), 4, Matrix(out.data(), 67, 4 * 21));
      return out;
    };
    const std::vector<float> expected = run(reference::Embed, 1);
    ExpectSameBits(run(simd::Embed, 1), expected);
    ExpectSameBits(run(simd::Embed, 3), expected);
  }
}

TEST(Ple, TakesThePlannedScratchExactly) {
  const Case test(500, 67);
  const OpSizes sizes{.rows = 67, .hidden = 500, .streams = 4, .ple = test.config};
  test::ExpectExactScratch(simd::PleScratch(sizes), [&] { test.Run(simd::Ple, 1, 67); });
}

}  // namespace
}  // namespace kv8
