#include "calib/log2_bins.h"

namespace kv8 {
namespace {

std::uint32_t BinOfBits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(LogHistogram::BinOf(std::bit_cast<float>(bits)));
}

/// Lowest bit pattern in (low, high] whose bin is above that of `low`; high + 1 when there is none.
std::uint32_t NextEdge(std::uint32_t low, std::uint32_t high) {
  const std::uint32_t bin = BinOfBits(low);
  if (BinOfBits(high) == bin) return high + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (BinOfBits(middle) > bin ? high : low) = middle;
  }
  return high;
}

}  // namespace

const Log2Bins& Log2Bins::Get() {
  static const Log2Bins kBins;
  return kBins;
}

Log2Bins::Log2Bins() {
  constexpr std::uint32_t kCells = ((kHighestBits - kLowestBits) >> kCellShift) + 1;
  cells_.reserve(kCells);
  for (std::uint32_t i = 0; i < kCells; ++i) {
    const std::uint32_t lowest = kLowestBits + (i << kCellShift);
    const std::uint32_t highest = lowest + (1u << kCellShift) - 1;
    cells_.push_back({BinOfBits(lowest), NextEdge(lowest, highest)});
  }
}

}  // namespace kv8
