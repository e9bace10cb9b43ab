#include <algorithm>
#include <bit>
#include <cmath>

#include "numeric/log_histogram.h"
#include "ops/cpu/reference.h"

namespace kv8::reference {
namespace {

void Observe(float x, HeadMagnitudes& head, std::uint32_t& max_bits) {
  const float magnitude = std::fabs(x);
  ++head.count;
  max_bits = std::max(max_bits, std::bit_cast<std::uint32_t>(magnitude));
  if (magnitude == 0) {
    ++head.zeros;
  } else if (std::isfinite(magnitude)) {
    ++head.bins[LogHistogram::BinOf(magnitude)];
  }
}

}  // namespace

void KvObserve(const OpContext&, int heads, ConstMatrix k, ConstMatrix v,
               std::span<HeadMagnitudes> out, std::span<std::uint32_t> max_bits) {
  for (int side = 0; side < 2; ++side) {
    const ConstMatrix& values = side == 0 ? k : v;
    const std::int64_t dim = values.cols / heads;
    for (std::int64_t row = 0; row < values.rows; ++row) {
      for (std::int64_t i = 0; i < values.cols; ++i) {
        const auto head = static_cast<std::size_t>(side * heads + i / dim);
        Observe(values.row(row)[static_cast<std::size_t>(i)], out[head], max_bits[head]);
      }
    }
  }
}

}  // namespace kv8::reference
