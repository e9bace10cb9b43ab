#include "compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kv8::test {
namespace {

double LogSumExp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - top);
  return top + std::log(sum);
}

std::string LayerName(const char* what, int layer) {
  return std::string(what) + ".layer" + std::to_string(layer);
}

/// Rows [T][heads*D] as [heads,T,D], the golden files' order for K and V.
std::vector<float> ByHead(const std::vector<std::vector<float>>& rows, int heads) {
  std::vector<float> out;
  for (int h = 0; h < heads; ++h) {
    for (const auto& row : rows) {
      const auto size = static_cast<std::ptrdiff_t>(row.size()) / heads;
      out.insert(out.end(), row.begin() + h * size, row.begin() + (h + 1) * size);
    }
  }
  return out;
}

std::vector<float> Flat(const std::vector<std::vector<float>>& rows) {
  std::vector<float> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

/// Tokens that a row at `position` sees, as a 0/1 mask over `tokens`.
std::vector<std::uint8_t> VisibleMask(const TailProbe::Blocks& blocks, std::int64_t position,
                                      std::int64_t tokens, int selection_block_tokens) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(tokens), 0);
  for (const std::int32_t block : blocks) {
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(block) * selection_block_tokens,
                selection_block_tokens, 1);
  }
  for (std::int64_t t = (position + 1) / selection_block_tokens * selection_block_tokens;
       t <= position; ++t) {
    mask[static_cast<std::size_t>(t)] = 1;
  }
  return mask;
}

}  // namespace

float MaxAbsDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<float>::infinity();
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= worst))
      worst = std::isnan(difference) ? std::numeric_limits<float>::infinity() : difference;
  }
  return worst;
}

std::vector<double> NegativeLogLikelihoods(std::span<const float> logits,
                                           std::span<const TokenId> ids, std::int64_t vocab) {
  std::vector<double> nll;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto row =
        logits.subspan(t * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
    nll.push_back(LogSumExp(row) - row[static_cast<std::size_t>(ids[t + 1])]);
  }
  return nll;
}

double KlDivergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const double p_norm = LogSumExp(p_logits);
  const double q_norm = LogSumExp(q_logits);
  double kl = 0;
  for (std::size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = p_logits[i] - p_norm;
    kl += std::exp(log_p) * (log_p - (q_logits[i] - q_norm));
  }
  return kl;
}

std::vector<std::size_t> ArgMaxMismatches(std::span<const float> logits,
                                          std::span<const std::int32_t> expected,
                                          std::int64_t vocab) {
  std::vector<std::size_t> wrong;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const auto row =
        logits.subspan(t * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
    const float best = row[static_cast<std::size_t>(ArgMax(row))];
    if (!(best - row[static_cast<std::size_t>(expected[t])] <= kTieGap)) wrong.push_back(t);
  }
  return wrong;
}

void ExpectTailsMatch(const Golden& golden, const TailProbe& probe, const ModelSpec& config,
                      std::int64_t tokens) {
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    EXPECT_LE(MaxAbsDifference(Flat(probe.streams.at(layer).rows()),
                               golden.Floats(LayerName("streams_last4", layer))),
              kActivationTolerance);
  }
  for (const int layer : config.KvLayerNumbers()) {
    SCOPED_TRACE("QSA layer " + std::to_string(layer));
    const int heads = config.qsa.kv_heads;
    EXPECT_LE(MaxAbsDifference(ByHead(probe.keys.at(layer).rows(), heads),
                               golden.Floats(LayerName("k_last8", layer))),
              kActivationTolerance);
    EXPECT_LE(MaxAbsDifference(ByHead(probe.values.at(layer).rows(), heads),
                               golden.Floats(LayerName("v_last8", layer))),
              kActivationTolerance);
    const auto visible = golden.Bytes(LayerName("visible_tokens_last4", layer));
    const auto& selections = probe.selections.at(layer);
    for (std::size_t i = 0; i < selections.size(); ++i) {
      const std::int64_t position = tokens - static_cast<std::int64_t>(selections.size() - i);
      const auto mask =
          VisibleMask(selections[i], position, tokens, config.qsa.selection_block_tokens);
      const auto expected = visible.begin() + static_cast<std::ptrdiff_t>(i) * tokens;
      EXPECT_TRUE(std::equal(mask.begin(), mask.end(), expected)) << "row " << position;
    }
  }
}

}  // namespace kv8::test
