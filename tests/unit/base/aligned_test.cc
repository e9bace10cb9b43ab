#include "base/aligned.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace kv8 {
namespace {

TEST(AlignedVector, BeginsAtACacheLineWhateverItsSize) {
  // Small pieces come from another part of the heap than large ones.
  for (const std::size_t count : {1, 3, 1000, 1'000'000}) {
    AlignedVector<float> values(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.data()) % kCacheLine, 0u) << count;
    values.resize(2 * count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.data()) % kCacheLine, 0u) << count;
  }
}

}  // namespace
}  // namespace kv8
