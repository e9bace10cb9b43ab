#include "checkpoint/finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace kv8 {
namespace {

using testing::HasSubstr;

template <class T>
Result<void> Check(const std::vector<T>& values, DType dtype) {
  // One byte off: stored tensors may lie at any address.
  std::vector<std::byte> bytes(values.size() * sizeof(T) + 1);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  return CheckFinite({bytes.data() + 1, dtype, {std::ssize(values)}}, "w", "f");
}

TEST(CheckFinite, FindsTheFirstBadElementAnywhere) {
  for (const std::size_t size : {1, 5, 4096, 4097, 10000}) {
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      std::vector<float> values(size, std::numeric_limits<float>::max());
      EXPECT_TRUE(Check(values, DType::kF32).ok());
      values[at] = std::nanf("");
      values[size - 1] = -std::numeric_limits<float>::infinity();
      const auto result = Check(values, DType::kF32);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().code, Code::kCorrupt);
      EXPECT_EQ(result.error().where, "f: tensor w");
      EXPECT_THAT(result.error().what, HasSubstr("element " + std::to_string(at) + " of F32"));
    }
  }
}

TEST(CheckFinite, KnowsEveryFloatType) {
  EXPECT_TRUE(Check<std::uint16_t>({0x7F7F, 0xFF7F, 0x0001}, DType::kBF16).ok());
  EXPECT_FALSE(Check<std::uint16_t>({0x7F80}, DType::kBF16).ok());  // inf
  EXPECT_FALSE(Check<std::uint16_t>({0xFFC0}, DType::kBF16).ok());  // NaN
  EXPECT_TRUE(Check<std::uint16_t>({0x7BFF, 0xFBFF, 0x0001}, DType::kF16).ok());
  EXPECT_FALSE(Check<std::uint16_t>({0xFC00}, DType::kF16).ok());  // -inf
  EXPECT_FALSE(Check<std::uint16_t>({0x7C01}, DType::kF16).ok());  // NaN
  EXPECT_TRUE(Check<std::int64_t>({-1}, DType::kI64).ok());
}

}  // namespace
}  // namespace kv8
