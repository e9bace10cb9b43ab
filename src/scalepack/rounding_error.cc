#include "scalepack/rounding_error.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "numeric/e4m3.h"

namespace kv8 {
namespace {

const std::array<float, LogHistogram::kBins>& Middles() {
  static const auto kMiddles = [] {
    std::array<float, LogHistogram::kBins> middles{};
    for (int bin = 0; bin < LogHistogram::kBins; ++bin) middles[bin] = LogHistogram::Middle(bin);
    return middles;
  }();
  return kMiddles;
}

}  // namespace

double RoundingEstimate::relative() const {
  return squared_values > 0 ? std::sqrt(squared_error / squared_values) : 0;
}

RoundingEstimate EstimateRounding(const SideStatistics& side, float scale) {
  RoundingEstimate sum;
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    if (side.histogram.bins[bin] == 0) continue;
    const auto count = static_cast<double>(side.histogram.bins[bin]);
    const float x = std::min(Middles()[bin], side.max_abs);
    const double stored =
        static_cast<double>(DecodeE4M3(QuantizeE4M3(x, scale))) * static_cast<double>(scale);
    const double error = static_cast<double>(x) - stored;
    sum.squared_error += count * error * error;
    sum.squared_values += count * static_cast<double>(x) * static_cast<double>(x);
  }
  return sum;
}

ClippedCount CountClipped(const SideStatistics& side, float scale) {
  const double limit = static_cast<double>(kE4M3Max) * static_cast<double>(scale);
  ClippedCount clipped;
  if (side.max_abs <= limit) return clipped;
  for (int bin = LogHistogram::kBins; bin-- > 0;) {
    const bool last = bin == LogHistogram::kBins - 1;
    if (!last && LogHistogram::UpperEdge(bin) <= limit) break;
    clipped.at_most += side.histogram.bins[bin];
    if (bin > 0 && LogHistogram::UpperEdge(bin - 1) > limit) {
      clipped.at_least += side.histogram.bins[bin];
    }
  }
  // The maximum is one of them, wherever the limit lies in its bin.
  clipped.at_least = std::max<std::uint64_t>(clipped.at_least, 1);
  return clipped;
}

}  // namespace kv8
