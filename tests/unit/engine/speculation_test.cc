// Speculation: what it promises about distributions, counts and refusals. That greedy and sampled
// output stay the same token for token is in schedule_test.cc.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/speculation.h"
#include "kv8/engine.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

constexpr int kTopK = 3;
constexpr float kTemperature = 1.5f;

EngineOptions Options(int drafts, DraftSampling sampling) {
  EngineOptions options;
  options.model = BundledModel();
  options.device = TestDevice();
  options.max_model_len = 128;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.threads = 1;
  options.speculative_tokens = drafts;
  options.draft_sampling = sampling;
  return options;
}

/// Sampled tokens against the probabilities they were sampled with, kTopK candidates each.
///
/// With x the indicator of the token's rank and p the probabilities, the sum of x - p has the sum
/// of diag(p) - p p^T as covariance, whatever the tokens before. One such sum for each range of the
/// best candidate's probability.
class RankStatistic {
 public:
  void Add(const PositionLogprobs& position) {
    std::array<double, kTopK> p{};
    double sum = 0;
    for (int i = 0; i < kTopK; ++i) {
      p[i] = std::exp(double{position.top[i].logprob} / kTemperature);
      sum += p[i];
    }
    for (double& value : p) value /= sum;
    Bin& bin = bins_[p[0] < 0.5 ? 0 : p[0] < 0.7 ? 1 : p[0] < 0.9 ? 2 : 3];
    ++bin.count;
    bool possible = false;
    for (int i = 0; i < kTopK; ++i) {
      const bool chosen = position.top[i].token == position.chosen.token;
      possible |= chosen;
      if (i < 2) bin.difference[i] += (chosen ? 1 : 0) - p[i];
    }
    impossible_ += possible ? 0 : 1;
    bin.xx += p[0] * (1 - p[0]);
    bin.yy += p[1] * (1 - p[1]);
    bin.xy -= p[0] * p[1];
  }

  /// Chi-square with two degrees of freedom for each bin in use.
  double ChiSquare() const {
    double total = 0;
    for (const Bin& bin : bins_) {
      if (bin.count == 0) continue;
      const auto [x, y] = bin.difference;
      const double determinant = bin.xx * bin.yy - bin.xy * bin.xy;
      total += (x * x * bin.yy - 2 * x * y * bin.xy + y * y * bin.xx) / determinant;
    }
    return total;
  }
  std::int64_t impossible() const { return impossible_; }
  std::int64_t count() const {
    std::int64_t sum = 0;
    for (const Bin& bin : bins_) sum += bin.count;
    return sum;
  }

 private:
  struct Bin {
    std::int64_t count = 0;
    std::array<double, 2> difference{};
    double xx = 0, yy = 0, xy = 0;
  };
  std::array<Bin, 4> bins_;
  std::int64_t impossible_ = 0;
};

class SpeculativeSampling : public testing::TestWithParam<DraftSampling> {};

TEST_P(SpeculativeSampling, KeepsTheTargetsDistribution) {
  constexpr int kRequests = 200;
  constexpr int kTokens = 101;
  const auto engine = MakeEngine(Options(2, GetParam()));
  RankStatistic statistic;
  for (int seed = 0; seed < kRequests; ++seed) {
    Request request;
    request.prompt = Golden("edge_3").Ints("input_ids");
    request.max_tokens = kTokens;
    request.ignore_eos = true;
    request.logprobs = kTopK;
    request.sampling.temperature = kTemperature;
    request.sampling.top_k = kTopK;
    request.sampling.seed = static_cast<std::uint64_t>(seed);
    const auto add = [&statistic](const Completion& done) {
      for (const auto& position : done.choices.front().logprobs) statistic.Add(position);
    };
    ASSERT_TRUE(engine->Submit(std::move(request), {}, add).ok());
  }
  while (engine->Step()) {
  }
  EXPECT_EQ(statistic.count(), kRequests * kTokens);
  EXPECT_EQ(statistic.impossible(), 0);
  EXPECT_LT(statistic.ChiSquare(), 26.1) << "8 degrees of freedom, 0.1%";
  const SpeculationStats stats = engine->statistics().speculation;
  EXPECT_GT(stats.accepted, stats.drafted / 10) << "too few acceptances to show anything";
  EXPECT_LT(stats.accepted, stats.drafted * 9 / 10) << "too few refusals to show anything";
}

INSTANTIATE_TEST_SUITE_P(Long, SpeculativeSampling,
                         testing::Values(DraftSampling::kGreedy, DraftSampling::kProbabilistic),
                         [](const auto& param_info) {
                           return param_info.param == DraftSampling::kGreedy
                                      ? std::string("Greedy")
                                      : std::string("Probabilistic");
                         });

/// Verifies a draft from q against p for many seeds; the sequence's token must follow p.
TEST(Speculation, RejectionFollowsTheTarget) {
  constexpr int kSamples = 200'000;
  const std::vector<float> target = {std::log(0.5f), std::log(0.1f), std::log(0.4f), -40.0f};
  // Probabilities 0.2, 0.5, 0.3; 3 is all but impossible for the target.
  Candidates q{{{0, 0, 2}, {1, 2, 5}, {3, 1, 3}}, 10};
  RequestRecord record;
  record.request.sampling.temperature = 1;
  Sequence sequence;
  sequence.request = &record;
  Sampler sampler;
  std::array<double, 4> counts{};
  int accepted = 0;
  for (int seed = 0; seed < kSamples; ++seed) {
    record.request.sampling.seed = static_cast<std::uint64_t>(seed);
    const TokenId draft = q.At(RandomAt(record.request.sampling.seed, 0, 0, Draw::kDraft));
    sequence.drafts = {{draft, q}};
    const Verdict verdict = Verify(sampler, sequence, 0, target);
    accepted += verdict.accepted ? 1 : 0;
    counts[static_cast<std::size_t>(verdict.token)] += 1;
  }
  // Four standard deviations.
  EXPECT_NEAR(counts[0] / kSamples, 0.5, 0.0045);
  EXPECT_NEAR(counts[1] / kSamples, 0.1, 0.0027);
  EXPECT_NEAR(counts[2] / kSamples, 0.4, 0.0044);
  EXPECT_EQ(counts[3], 0);
  EXPECT_NEAR(static_cast<double>(accepted) / kSamples, 0.3, 0.0041);  // sum of min(p, q)
}

TEST(Speculation, ReportsWhatWasDraftedAndAccepted) {
  const auto engine = MakeEngine(Options(3, DraftSampling::kGreedy));
  Request request;
  request.prompt = Golden("edge_65").Ints("input_ids");
  request.max_tokens = 30;
  request.ignore_eos = true;
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok());
  const SpeculationStats& s = done->speculation;
  ASSERT_EQ(s.drafted_at.size(), 3u);
  EXPECT_EQ(s.drafted_at[0] + s.drafted_at[1] + s.drafted_at[2], s.drafted);
  EXPECT_EQ(s.accepted_at[0] + s.accepted_at[1] + s.accepted_at[2], s.accepted);
  EXPECT_GE(s.accepted_at[0], s.accepted_at[1]);
  EXPECT_GE(s.accepted_at[1], s.accepted_at[2]);
  // One token comes from the prompt, one from each step besides the accepted drafts; the last step
  // may be one without drafts.
  EXPECT_GE(s.steps + s.accepted + 1, 29);
  EXPECT_LE(s.steps + s.accepted + 1, 30);
}

TEST(Speculation, LogprobsAreThoseWithoutDrafts) {
  Request request;
  request.prompt = Golden("edge_65").Ints("input_ids");
  request.max_tokens = 20;
  request.ignore_eos = true;
  request.logprobs = 2;
  request.prompt_logprobs = 1;
  const auto plain = MakeEngine(Options(0, DraftSampling::kGreedy))->Generate(request);
  const auto drafted = MakeEngine(Options(3, DraftSampling::kGreedy))->Generate(request);
  ASSERT_TRUE(plain.ok() && drafted.ok());
  const auto values = [](const std::vector<PositionLogprobs>& positions) {
    std::vector<float> all;
    for (const PositionLogprobs& position : positions) {
      all.push_back(position.chosen.logprob);
      for (const TokenLogprob& top : position.top) all.push_back(top.logprob);
    }
    return all;
  };
  EXPECT_EQ(plain->prompt_logprobs.size(), 64u);
  EXPECT_EQ(values(drafted->prompt_logprobs), values(plain->prompt_logprobs));
  EXPECT_EQ(values(drafted->choices[0].logprobs), values(plain->choices[0].logprobs));
  EXPECT_GT(drafted->speculation.accepted, 0);
}

TEST(Speculation, E4M3NeedsTheDraftsScales) {
  const TempDir dir;
  MakePublishedPack(dir / "pack");
  EngineOptions options = Options(3, DraftSampling::kGreedy);
  options.kv_dtype = KvDType::kE4M3;
  options.scale_pack = dir / "pack";
  EXPECT_FALSE(Engine::Create(options).ok());
  options.speculative_tokens = 0;
  EXPECT_TRUE(Engine::Create(options).ok());
}

}  // namespace
}  // namespace kv8::test
