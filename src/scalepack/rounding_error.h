// What a scale does to values of which only a histogram is known.
#pragma once

#include <cstdint>

#include "scalepack/calibration_report.h"

namespace kv8 {

/// Estimated from the histogram: every value of a bin (0.68% wide; E4M3's steps are 6.25% to 12.5%)
/// stands at the bin's geometric middle, at most at the maximum.
struct RoundingEstimate {
  double squared_error = 0;   // sum over values of (x - scale * e4m3(x / scale))^2
  double squared_values = 0;  // sum over values of x^2

  /// Relative L2 error; 0 without values.
  double relative() const;
};
RoundingEstimate EstimateRounding(const SideStatistics& side, float scale);

/// How many values have |x| > 448 * scale. Those of the bin in which the limit lies are not known.
struct ClippedCount {
  std::uint64_t at_least = 0;
  std::uint64_t at_most = 0;
};
ClippedCount CountClipped(const SideStatistics& side, float scale);

}  // namespace kv8
