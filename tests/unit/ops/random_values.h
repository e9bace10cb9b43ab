// Reproducible operands.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace kv8 {

/// `count` values of a normal distribution, from `seed` alone.
inline std::vector<float> RandomValues(std::int64_t count, std::uint32_t seed,
                                       float deviation = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

/// `count` small integers in [-limit, limit]: sums of their products are exact in FP32.
inline std::vector<float> RandomIntegers(std::int64_t count, std::uint32_t seed, int limit) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> uniform(-limit, limit);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(uniform(engine));
  return values;
}

}  // namespace kv8
