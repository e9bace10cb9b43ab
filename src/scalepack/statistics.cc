#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "numeric/e4m3.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

float ScaleForMaxAbs(double max_abs) {
  assert(std::isfinite(max_abs) && max_abs > 0);
  // 448 * (24-bit significand) is exact in double, so the comparison below is exact.
  const auto covers = [max_abs](float scale) {
    return static_cast<double>(kE4M3Max) * static_cast<double>(scale) >= max_abs;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto scale = static_cast<float>(max_abs / kE4M3Max);
  while (!covers(scale)) scale = std::nextafterf(scale, kInfinity);
  while (covers(std::nextafterf(scale, 0.0f))) scale = std::nextafterf(scale, 0.0f);
  return scale == 1.0f ? std::nextafterf(1.0f, kInfinity) : scale;
}

double PercentileUpperBound(const SideStatistics& side, double q) {
  const auto rank =
      static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(side.finite_count)));
  std::uint64_t seen = side.finite_count - side.nonzero_count;  // zeros rank first
  if (rank <= seen) return 0;
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    seen += side.histogram.bins[bin];
    if (seen >= rank) return LogHistogram::UpperEdge(bin);
  }
  return LogHistogram::UpperEdge(LogHistogram::kBins - 1);
}

}  // namespace kv8
