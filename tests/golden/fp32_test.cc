// With an FP32 cache the model reproduces its reference values, however the rows are cut into
// calls.
#include <gtest/gtest.h>

#include <numeric>

#include "compare.h"

namespace kv8::test {
namespace {

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Mean(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Logits, argmax and likelihoods of every row.
void ExpectLogitsMatch(const Golden& golden, std::span<const float> logits,
                       std::span<const TokenId> ids, std::int64_t vocab) {
  const auto last = golden.Floats("logits_last4");
  EXPECT_LE(MaxAbsDifference(logits.last(last.size()), last), kActivationTolerance);
  EXPECT_EQ(ArgMaxMismatches(logits, golden.Ints("argmax_all"), vocab), std::vector<std::size_t>{});
  if (!golden.Has("nll_all")) return;
  const auto nll = NegativeLogLikelihoods(logits, ids, vocab);
  const auto expected = golden.Floats("nll_all");
  ASSERT_EQ(nll.size(), expected.size());
  EXPECT_NEAR(Mean(nll), Mean(expected), kMeanNllTolerance);
}

/// Continues greedily from the prompt's last row through decode kernels.
std::vector<std::int32_t> Greedy(SequenceRunner& runner, std::span<const float> last_streams,
                                 std::size_t count) {
  std::vector<std::int32_t> tokens;
  std::vector<float> streams(last_streams.begin(), last_streams.end());
  while (tokens.size() < count) {
    const TokenId next = ArgMax(runner.Logits(streams));
    tokens.push_back(next);
    streams = runner.Decode({&next, 1});
  }
  return tokens;
}

struct Cut {
  std::string name;
  std::string golden;
  std::int64_t chunk;  // 0: token by token through decode kernels
};

class GoldenFp32 : public testing::TestWithParam<Cut> {};

TEST_P(GoldenFp32, Reproduces) {
  const Golden golden(GetParam().golden);
  const auto ids = golden.Ints("input_ids");
  SequenceRunner runner({});
  TailProbe probe(runner.model().spec.qsa.budget_selection_blocks);
  const std::vector<float> streams = GetParam().chunk == 0
                                         ? runner.Decode(ids, &probe)
                                         : runner.Prefill(ids, GetParam().chunk, &probe);
  ExpectLogitsMatch(golden, runner.Logits(streams), ids, runner.vocab());
  if (golden.Has("streams_last4.layer0")) {
    ExpectTailsMatch(golden, probe, runner.model().spec, static_cast<std::int64_t>(ids.size()));
  }
  const auto greedy = golden.Ints("greedy");
  const auto last = std::span(streams).last(static_cast<std::size_t>(runner.stream_width()));
  EXPECT_EQ(Greedy(runner, last, greedy.size()), greedy);
}

std::vector<Cut> Cuts() {
  std::vector<Cut> cuts;
  for (const bool edge : {true, false}) {
    for (const std::string& name : Golden::Names(edge)) {
      for (const std::int64_t chunk : {0, 64, 192, 512, 4096}) {
        const std::string how = chunk == 0 ? "Decode" : "Chunk" + std::to_string(chunk);
        cuts.push_back({name + how, name, chunk});
      }
    }
  }
  return cuts;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenFp32, testing::ValuesIn(Cuts()),
                         [](const auto& param_info) { return param_info.param.name; });

class GoldenDraft : public testing::TestWithParam<std::string> {};

TEST_P(GoldenDraft, Reproduces) {
  const Golden golden(GetParam());
  const auto ids = golden.Ints("input_ids");
  SequenceRunner runner({.with_draft = true});
  const std::vector<float> streams = runner.Prefill(ids, 512);
  const auto width = static_cast<std::size_t>(runner.stream_width());

  const std::span<const TokenId> next = std::span(ids).subspan(1);
  const auto draft = runner.DraftPrefill(next, std::span(streams).first(next.size() * width), 512);
  const auto logits = runner.DraftLogits(draft);
  const auto last = golden.Floats("mtp_logits_last4");
  EXPECT_LE(MaxAbsDifference(std::span(logits).last(last.size()), last), kActivationTolerance);
  EXPECT_EQ(ArgMaxMismatches(logits, golden.Ints("mtp_argmax_all"), runner.vocab()),
            std::vector<std::size_t>{});

  // Three steps from the prompt's last row: the first on the target's streams, the others on the
  // draft's own.
  std::vector<std::int32_t> drafted;
  TokenId token = golden.Ints("greedy").front();
  std::vector<float> hidden(streams.end() - static_cast<std::ptrdiff_t>(width), streams.end());
  for (std::int64_t step = 0; step < 3; ++step) {
    hidden = runner.DraftStep(token, hidden, static_cast<std::int64_t>(ids.size()) - 1 + step);
    token = ArgMax(runner.DraftLogits(hidden));
    drafted.push_back(token);
  }
  EXPECT_EQ(drafted, golden.Ints("draft3"));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenDraft, testing::ValuesIn(Golden::Names(false)),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace kv8::test
