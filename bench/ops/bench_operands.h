// Operands with the bundled model's dimensions, shared by the benchmarks of GDN and QSA.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/qsa.h"

namespace kv8 {

inline std::vector<float> RandomOperand(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

/// Throws unless the two agree: a fast wrong kernel is not worth a figure.
inline void RequireClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!(std::abs(actual[i] - expected[i]) <= 1e-4f * std::max(1.0f, std::abs(expected[i])))) {
      throw std::runtime_error("element " + std::to_string(i) + " differs from the reference: " +
                               std::to_string(actual[i]) + " vs " + std::to_string(expected[i]));
    }
  }
}

inline QsaConfig BundledQsa() {
  QsaConfig config;
  config.query_heads = 12;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.rotary_dim = 16;
  config.index_heads = 4;
  config.index_dim = 64;
  config.selection_block_tokens = 4;
  config.budget_selection_blocks = 64;
  return config;
}

}  // namespace kv8
