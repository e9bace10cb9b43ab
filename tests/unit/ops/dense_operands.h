// Weights as a checkpoint stores them, and comparisons of matrices.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "numeric/half.h"
#include "tensor/weight.h"
#include "unit/ops/random_values.h"

namespace kv8 {

/// A weight at an odd address, as safetensors allows.
class StoredWeight {
 public:
  StoredWeight(WeightFormat format, std::int64_t rows, std::int64_t cols,
               std::span<const float> values)
      : format_(format), rows_(rows), cols_(cols) {
    const auto size = static_cast<std::size_t>(CodeBits(format) / 8);
    bytes_.resize(values.size() * size + 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::byte* to = bytes_.data() + 1 + i * size;
      const std::uint16_t code =
          format == WeightFormat::kBf16 ? EncodeBf16(values[i]) : EncodeFp16(values[i]);
      std::memcpy(to, format == WeightFormat::kFp32 ? static_cast<const void*>(&values[i]) : &code,
                  size);
    }
  }
  /// Random values of a size that keeps products of `cols` terms near 1.
  StoredWeight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint32_t seed)
      : StoredWeight(format, rows, cols,
                     RandomValues(rows * cols, seed, 1.0f / std::sqrt(static_cast<float>(cols)))) {}

  Weight view() const { return {format_, rows_, cols_, bytes_.data() + 1}; }

 private:
  WeightFormat format_;
  std::int64_t rows_, cols_;
  std::vector<std::byte> bytes_;
};

/// |actual - expected| <= tolerance * max(1, |expected|), NaN and infinities in the same places.
inline void ExpectClose(std::span<const float> actual, std::span<const float> expected,
                        float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i]) || actual[i] == expected[i]) continue;
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0f, std::fabs(expected[i]))) << i;
  }
}

inline void ExpectSameBits(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

inline constexpr WeightFormat kPlainFormats[] = {WeightFormat::kBf16, WeightFormat::kFp16,
                                                 WeightFormat::kFp32};

}  // namespace kv8
