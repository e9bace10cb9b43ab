// What calibration counts about the values that go to the K/V cache. Read by host and device code,
// so it includes nothing but integers.
#pragma once

#include <cstdint>

namespace kv8 {

inline constexpr int kMagnitudeBins = 4096;  // LogHistogram::kBins

/// Values of one head of one side (K or V) of one layer. Integers only, so the order of counting
/// does not matter.
struct HeadMagnitudes {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  std::uint64_t bins[kMagnitudeBins] = {};  // of finite values that are not zero
};

}  // namespace kv8
