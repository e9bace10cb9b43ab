#include "proof/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "numeric/split_mix64.h"

namespace kv8 {
namespace {

// Quantiles of the normal distribution at 1 - kSignificance / 2 and at kPower.
constexpr double kTwoSidedQuantile = 1.959963984540054;
constexpr double kPowerQuantile = 0.8416212335729143;

double LogChoose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

/// P(X >= least) of a binomial variable.
double BinomialTail(std::uint64_t n, double p, std::uint64_t least) {
  const auto count = static_cast<double>(n);
  double below = 0;
  for (std::uint64_t k = 0; k < least; ++k) {
    const auto hits = static_cast<double>(k);
    below +=
        std::exp(LogChoose(count, hits) + hits * std::log(p) + (count - hits) * std::log1p(-p));
  }
  return 1 - below;
}

/// nullopt when a count is 0.
std::optional<double> Difference(const RatioPair& sum) {
  if (sum.a_count <= 0 || sum.b_count <= 0) return std::nullopt;
  return sum.b / sum.b_count - sum.a / sum.a_count;
}

void Add(const RatioPair& pair, RatioPair& sum) {
  sum.a += pair.a;
  sum.a_count += pair.a_count;
  sum.b += pair.b;
  sum.b_count += pair.b_count;
}

/// Linear between the two nearest, as numpy's default.
double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

double StandardDeviation(const std::vector<double>& values) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

double McNemarP(std::uint64_t lost, std::uint64_t gained) {
  const auto pairs = static_cast<double>(lost + gained);
  double tail = 0;
  for (std::uint64_t k = 0; k <= std::min(lost, gained); ++k) {
    tail += std::exp(LogChoose(pairs, static_cast<double>(k)) - pairs * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

std::optional<double> SmallestLossShare(std::uint64_t pairs) {
  if (pairs < kFewestPairs) return std::nullopt;
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (BinomialTail(pairs, middle, kFewestPairs) < kPower ? low : high) = middle;
  }
  return high;
}

std::optional<PairedDifference> PairedBootstrap(std::span<const RatioPair> pairs,
                                                std::uint64_t seed, int resamples) {
  std::vector<RatioPair> used;
  RatioPair sum;
  for (const RatioPair& pair : pairs) {
    if (pair.a_count <= 0 && pair.b_count <= 0) continue;
    used.push_back(pair);
    Add(pair, sum);
  }
  const std::optional<double> difference = Difference(sum);
  if (used.size() < kFewestPairs || !difference || resamples < 2) return std::nullopt;
  std::vector<double> draws;
  std::uint64_t counter = seed;
  while (draws.size() < static_cast<std::size_t>(resamples)) {
    RatioPair resampled;
    for (std::size_t i = 0; i < used.size(); ++i, counter += kSplitMixGamma) {
      // The bias of a remainder is below 2^-40 for any corpus that fits in memory.
      Add(used[SplitMix64(counter) % used.size()], resampled);
    }
    draws.push_back(Difference(resampled).value_or(*difference));
  }
  std::sort(draws.begin(), draws.end());
  return PairedDifference{
      .difference = *difference,
      .low = Quantile(draws, kSignificance / 2),
      .high = Quantile(draws, 1 - kSignificance / 2),
      .smallest_effect = (kTwoSidedQuantile + kPowerQuantile) * StandardDeviation(draws)};
}

}  // namespace kv8
