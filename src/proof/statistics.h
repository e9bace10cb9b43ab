// Tests for paired measurements: the same items under two configurations, A and B.
//
// What is not shown is not shown to be equal. So beside each test stands the smallest effect that
// it would have found with that many pairs in 80% of all cases.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace kv8 {

/// A difference counts as shown when chance alone would give it this seldom.
inline constexpr double kSignificance = 0.05;
/// The share of cases in which the "smallest effect" would have been shown.
inline constexpr double kPower = 0.8;
/// Fewest pairs that can show anything: with five, all to one side, chance alone gives 6%.
inline constexpr std::uint64_t kFewestPairs = 6;

/// part / all; 0 of nothing.
constexpr double Ratio(double part, double all) {
  return all > 0 ? part / all : 0;
}

/// Two-sided exact p value of McNemar's test: the chance that so unequal a split of the discordant
/// pairs comes of fair coins. `lost`: right under A alone; `gained`: right under B alone. 1 without
/// discordant pairs.
double McNemarP(std::uint64_t lost, std::uint64_t gained);

/// The smallest share of `pairs` that B must lose, gaining none, for McNemarP to show it with
/// probability kPower. nullopt: with so few pairs nothing could have been shown.
std::optional<double> SmallestLossShare(std::uint64_t pairs);

/// One item's part in two ratios, such as cost / tokens: sums over items are divided, not averaged
/// ratios, so that long items count for what they hold.
struct RatioPair {
  double a = 0;
  double a_count = 0;
  double b = 0;
  double b_count = 0;
};

/// sum(b) / sum(b_count) - sum(a) / sum(a_count).
struct PairedDifference {
  double difference = 0;
  double low = 0;  // 95% percentile interval over resampled items
  double high = 0;
  double smallest_effect = 0;  // that kPower would show, from the spread of the resamples
};

/// Resamples whole items, A and B together, `resamples` times; the same seed gives the same bits.
/// nullopt for fewer than kFewestPairs items with a count, or a sum of counts that is 0.
std::optional<PairedDifference> PairedBootstrap(std::span<const RatioPair> pairs,
                                                std::uint64_t seed, int resamples = 10'000);

}  // namespace kv8
