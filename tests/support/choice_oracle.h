// base/token_choice.h by its definition: a full sort, and the parts one after another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "base/token_choice.h"

namespace kv8::test {

/// A rule from the options that it stands for.
inline ChoiceRule MakeRule(double temperature, int top_k, double top_p, double min_p,
                           std::uint64_t random) {
  const double unit = std::ldexp(1.0, kDistanceBits);
  const double scale = unit / (temperature * std::numbers::ln2);
  ChoiceRule rule{
      .top_p = 0,
      .random = random,
      .scale = static_cast<float>(std::min(scale, double{std::numeric_limits<float>::max()})),
      .top_k = top_k,
      .max_distance = kFarthest};
  if (top_p < 1) rule.top_p = static_cast<std::uint64_t>(std::ldexp(top_p, 64));
  const double distance = min_p > 0 ? -std::log2(min_p) * unit : kFarthest;
  if (distance < kFarthest) rule.max_distance = static_cast<std::uint32_t>(distance);
  return rule;
}

struct ChoiceEntry {
  float logit;
  std::int32_t token;
  std::uint32_t distance;
  std::uint64_t weight;
};

/// Index of the chosen of finite logits.
inline std::int32_t ChosenToken(std::span<const float> logits, const ChoiceRule& rule) {
  __extension__ using Wide = unsigned __int128;
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<ChoiceEntry> entries;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::uint32_t distance = TokenDistance(largest, logits[i], rule.scale);
    entries.push_back({logits[i], static_cast<std::int32_t>(i), distance, TokenWeight(distance)});
  }
  std::sort(entries.begin(), entries.end(), [](const ChoiceEntry& a, const ChoiceEntry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  if (rule.scale == 0) return entries.front().token;
  if (rule.top_k > 0 && entries.size() > static_cast<std::size_t>(rule.top_k)) {
    entries.resize(static_cast<std::size_t>(rule.top_k));
  }
  const auto sum = [&] {
    std::uint64_t total = 0;
    for (const ChoiceEntry& entry : entries) total += entry.weight;
    return total;
  };
  if (rule.top_p != 0) {
    const auto need = static_cast<std::uint64_t>((Wide{rule.top_p} * sum()) >> 64);
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    while (kept == 0 || reached < need) reached += entries[kept++].weight;
    entries.resize(kept);
  }
  std::erase_if(entries, [&](const ChoiceEntry& e) { return e.distance > rule.max_distance; });
  const auto quantile = static_cast<std::uint64_t>((Wide{rule.random} * sum()) >> 64);
  std::uint64_t reached = 0;
  for (const ChoiceEntry& entry : entries) {
    reached += entry.weight;
    if (reached > quantile) return entry.token;
  }
  return -2;  // cannot be
}

}  // namespace kv8::test
