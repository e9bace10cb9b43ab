// Filters, penalties and draws of the sampler.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "support/choice_oracle.h"

namespace kv8::test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

SamplingOptions AtTemperature(float temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  return options;
}

std::vector<TokenId> TokensOf(const Candidates& candidates) {
  std::vector<TokenId> tokens;
  for (const Candidate& candidate : candidates.tokens) tokens.push_back(candidate.token);
  return tokens;
}

/// Pearson's statistic of counts against probabilities.
double ChiSquare(std::span<const std::int64_t> counts, std::span<const double> probabilities) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    const double difference = static_cast<double>(counts[i]) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

TEST(Sampler, ArgMaxTakesTheLowerIdOfATieAndNeverNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ArgMaxToken(std::vector<float>{nan, 1, 3, 3, 2}), 2);
  EXPECT_EQ(ArgMaxToken(std::vector<float>{nan, nan}), 0);
}

TEST(Sampler, FindsOneLogitAmongManyWhereverItIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t size : {1, 15, 16, 17, 256, 257, 600}) {
    std::vector<float> logits(size, -3.0f);
    EXPECT_TRUE(AllFinite(logits));
    for (std::size_t at = 0; at < size; ++at) {
      logits[at] = -2.0f;
      EXPECT_EQ(ArgMaxToken(logits), static_cast<TokenId>(at));
      for (const float odd : {infinity, -infinity, nan}) {
        logits[at] = odd;
        EXPECT_FALSE(AllFinite(logits)) << odd << " at " << at << " of " << size;
      }
      logits[at] = -3.0f;
    }
  }
  EXPECT_TRUE(AllFinite(std::vector<float>(40, std::numeric_limits<float>::max())));
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
  const SamplingOptions options = AtTemperature(0.7f);
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp(double{logit} / 0.7f));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;

  Sampler sampler;
  std::vector<std::int64_t> counts(logits.size());
  for (std::int64_t position = 0; position < 50'000; ++position) {
    ++counts[static_cast<std::size_t>(sampler.Next(options, logits, 0, position))];
  }
  EXPECT_LT(ChiSquare(counts, p), 18.5);  // 4 degrees of freedom, 0.1%
}

TEST(Sampler, DrawsDependOnSeedChoiceAndPositionOnly) {
  EXPECT_EQ(UniformAt(1, 2, 3, Draw::kToken), UniformAt(1, 2, 3, Draw::kToken));
  EXPECT_NE(UniformAt(1, 2, 3, Draw::kToken), UniformAt(2, 2, 3, Draw::kToken));
  EXPECT_NE(UniformAt(1, 2, 3, Draw::kToken), UniformAt(1, 1, 3, Draw::kToken));
  EXPECT_NE(UniformAt(1, 2, 3, Draw::kToken), UniformAt(1, 2, 4, Draw::kToken));
  EXPECT_NE(UniformAt(1, 2, 3, Draw::kToken), UniformAt(1, 2, 3, Draw::kAccept));
}

TEST(Sampler, UniformsFillTheUnitInterval) {
  std::vector<std::int64_t> counts(20);
  for (int seed = 0; seed < 100; ++seed) {
    for (int position = 0; position < 1000; ++position) {
      const double u = UniformAt(static_cast<std::uint64_t>(seed), 0, position, Draw::kToken);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++counts[static_cast<std::size_t>(u * 20)];
    }
  }
  EXPECT_LT(ChiSquare(counts, std::vector<double>(20, 0.05)), 43.8);  // 19 dof, 0.1%
}

TEST(Sampler, ChoosesWhatTheDefinitionSays) {
  std::mt19937_64 random(3);
  const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
  const float temperatures[] = {1e-42f, 0.1f, 0.7f, 1.0f, 100.0f};
  const int top_k[] = {0, 1, 7, 300, 1 << 30};
  const float top_p[] = {1.0f, 1e-18f, 0.3f, 0.9f, 1 - 0x1p-24f};
  const float min_p[] = {0.0f, 1e-20f, 0.05f, 1.0f};
  Sampler sampler;
  for (int round = 0; round < 1000; ++round) {
    std::vector<float> logits(one_of(std::array{1, 2, 50, 1000}));
    // Rounded ones have ties.
    for (float& logit : logits) logit = std::normal_distribution<float>(0, 3)(random);
    if (round % 3 == 0) std::ranges::for_each(logits, [](float& x) { x = std::round(x); });
    SamplingOptions options = AtTemperature(one_of(temperatures));
    options.top_k = one_of(top_k);
    options.top_p = one_of(top_p);
    options.min_p = one_of(min_p);
    options.seed = random();
    const std::uint64_t draw = RandomAt(options.seed, 1, round, Draw::kToken);
    const ChoiceRule rule =
        MakeRule(options.temperature, options.top_k, options.top_p, options.min_p, draw);
    ASSERT_EQ(sampler.Next(options, logits, 1, round), ChosenToken(logits, rule))
        << "round " << round;
  }
}

TEST(Sampler, TopKKeepsTheLowerIdOfATie) {
  SamplingOptions options = AtTemperature(1);
  options.top_k = 2;
  Sampler sampler;
  const Candidates& kept = sampler.Distribution(options, std::vector<float>{1, 5, 2, 2});
  EXPECT_THAT(TokensOf(kept), UnorderedElementsAre(1, 2));
  EXPECT_NEAR(kept.Of(1) + kept.Of(2), 1, 1e-12);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  SamplingOptions options = AtTemperature(1);
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  Sampler sampler;
  const auto kept = [&](float top_p) {
    options.top_p = top_p;
    return TokensOf(sampler.Distribution(options, logits));
  };
  EXPECT_THAT(kept(0.49f), UnorderedElementsAre(1));
  EXPECT_THAT(kept(0.51f), UnorderedElementsAre(1, 2));
  EXPECT_THAT(kept(0.81f), UnorderedElementsAre(1, 2, 0));
}

TEST(Sampler, TopPOfAFlatDistributionKeepsItsShare) {
  SamplingOptions options = AtTemperature(1);
  options.top_p = 0.5f;
  Sampler sampler;
  const std::vector<float> flat(1000, 0.0f);
  std::vector<TokenId> kept = TokensOf(sampler.Distribution(options, flat));
  EXPECT_NEAR(static_cast<double>(kept.size()), 500, 1);
  std::ranges::sort(kept);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], i);
}

TEST(Sampler, LogitsMadeAgainstThePivotsChangeNothing) {
  // The middle of what quickselect has left leads all of it, pass after pass.
  constexpr std::size_t kCount = 3000;
  std::vector<std::size_t> at(kCount);
  std::iota(at.begin(), at.end(), std::size_t{0});
  std::vector<float> logits(kCount);
  for (std::size_t first = 0; first < kCount; ++first) {
    std::swap(at[first + (kCount - first) / 2], at.back());
    logits[at.back()] = -0.001f * static_cast<float>(first);
    std::swap(at[first], at.back());
  }
  SamplingOptions options = AtTemperature(1);
  options.top_p = 0.9f;
  Sampler sampler;
  for (int position = 0; position < 20; ++position) {
    const std::uint64_t draw = RandomAt(options.seed, 0, position, Draw::kToken);
    ASSERT_EQ(sampler.Next(options, logits, 0, position),
              ChosenToken(logits, MakeRule(1, 0, 0.9f, 0, draw)));
  }
}

TEST(Sampler, MinPIsAShareOfTheBest) {
  SamplingOptions options = AtTemperature(1);
  options.min_p = 0.5f;
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  Sampler sampler;
  EXPECT_THAT(TokensOf(sampler.Distribution(options, logits)), UnorderedElementsAre(1, 2));
}

TEST(Sampler, WhatIsForbiddenIsNoCandidate) {
  const float none = -std::numeric_limits<float>::infinity();
  Sampler sampler;
  const std::vector<float> logits = {none, 1, none, 2, none};
  EXPECT_THAT(TokensOf(sampler.Distribution(AtTemperature(50), logits)),
              UnorderedElementsAre(1, 3));
}

TEST(Sampler, PenaltiesAndBiasChangeWhatTheySay) {
  SamplingOptions options;
  options.repetition_penalty = 2;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = 0.25f;
  options.logit_bias = {{4, 3.0f}};
  const std::vector<TokenId> prompt = {0, 1};
  TokenHistory history(options, prompt);
  history.Push(2);
  history.Push(2);
  history.Push(3);
  history.Pop(3);
  std::vector<float> logits = {4, -4, 4, 4, 4};
  Sampler::Adjust(options, history, logits);
  EXPECT_THAT(logits, ElementsAre(2, -8, 2 - 0.5f - 0.5f, 4, 7));
}

TEST(Sampler, LogprobsAreNormalised) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  const PositionLogprobs p = LogprobsOf(logits, 0, 2);
  EXPECT_NEAR(p.chosen.logprob, std::log(1.0 / 8), 1e-6);
  ASSERT_EQ(p.top.size(), 2u);
  EXPECT_EQ(p.top[0].token, 2);
  EXPECT_NEAR(p.top[0].logprob, std::log(5.0 / 8), 1e-6);
  EXPECT_NEAR(NegativeLogLikelihood(logits, 1), std::log(4.0), 1e-6);
}

/// A quantile in [0, 1] as a random number.
std::uint64_t AtQuantile(double quantile) {
  return static_cast<std::uint64_t>(std::ldexp(std::min(quantile, 1 - 0x1p-53), 64));
}

TEST(Sampler, DrawsTheMoreLikelyFirst) {
  Candidates candidates{{{5, 0, 2}, {6, 1, 4}, {7, 0, 2}}, 8};
  EXPECT_EQ(candidates.At(AtQuantile(0)), 6);
  EXPECT_EQ(candidates.At(AtQuantile(0.49)), 6);
  EXPECT_EQ(candidates.At(AtQuantile(0.51)), 5);
  EXPECT_EQ(candidates.At(AtQuantile(0.74)), 5);
  EXPECT_EQ(candidates.At(AtQuantile(0.76)), 7);
  EXPECT_EQ(candidates.At(~std::uint64_t{0}), 7);
}

TEST(Sampler, ResidualDrawsFollowTheDefinition) {
  std::mt19937 random(7);
  Sampler sampler_p, sampler_q;
  SamplingOptions cut = AtTemperature(0.9f);  // other candidates
  cut.top_k = 40;
  cut.top_p = 0.9f;
  const SamplingOptions whole = AtTemperature(1);
  for (int round = 0; round < 40; ++round) {
    std::vector<float> target(100), draft(100);
    for (float& logit : target) logit = std::normal_distribution<float>(0, 2)(random);
    for (float& logit : draft) logit = std::normal_distribution<float>(0, 2)(random);
    Candidates& p = sampler_p.Distribution(round % 2 == 0 ? whole : cut, target);
    const Candidates& q = sampler_q.Distribution(round % 4 < 2 ? whole : cut, draft);
    std::vector<TokenId> tokens = TokensOf(p);
    std::ranges::sort(tokens, std::greater(),
                      [&](TokenId token) { return target[static_cast<std::size_t>(token)]; });
    const auto excess = [&](TokenId token) { return std::max(0.0, p.Of(token) - q.Of(token)); };
    double sum = 0;
    for (const TokenId token : tokens) sum += excess(token);
    // At the middle of each token's range of quantiles the token is that one.
    double before = 0;
    for (const TokenId token : tokens) {
      const double share = excess(token) / sum;
      if (share > 1e-12) {
        EXPECT_EQ(sampler_p.DrawResidual(p, q, AtQuantile(before + share / 2)), token);
      }
      before += share;
    }
  }
}

TEST(Sampler, ResidualOfEqualDistributionsIsTheDistribution) {
  Sampler sampler;
  Candidates p{{{4, 0, 1}, {2, 1, 3}}, 4};
  EXPECT_EQ(sampler.DrawResidual(p, p, AtQuantile(0.7)), 2);
  EXPECT_EQ(sampler.DrawResidual(p, p, AtQuantile(0.8)), 4);
  // Nothing is left of the draws before.
  Candidates three{{{2, 0, 1}, {4, 0, 1}, {9, 1, 8}}, 10};
  EXPECT_EQ(sampler.DrawResidual(three, {{{9, 1, 1}}, 1}, AtQuantile(0.6)), 4);
}

}  // namespace
}  // namespace kv8::test
