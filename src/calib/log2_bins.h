// The bin of a float in a LogHistogram, without a logarithm per value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "scalepack/calibration_report.h"

namespace kv8 {

/// Gives LogHistogram::BinOf for every positive finite float. A cell is all floats that share sign,
/// exponent and the first 8 bits of the mantissa: at most log2(1 + 1/256) = 0.0056 octaves wide,
/// less than a bin's 0.0098, so that one edge at most lies inside of it.
class Log2Bins {
 public:
  /// Tables, built once per process (about 100,000 logarithms, a few milliseconds).
  static const Log2Bins& Get();

  /// `bits` is the bit pattern of a positive finite float.
  std::uint32_t BinOf(std::uint32_t bits) const {
    const std::uint32_t inside = std::clamp(bits, kLowestBits, kHighestBits);
    const Cell cell = cells_[(inside - kLowestBits) >> kCellShift];
    return cell.bin + (inside >= cell.next_edge ? 1 : 0);
  }

 private:
  struct Cell {
    std::uint32_t bin = 0;        // of the cell's lowest float
    std::uint32_t next_edge = 0;  // bits of the lowest float of the next bin, or beyond the cell
  };

  static constexpr std::uint32_t kCellShift = 15;
  static constexpr std::uint32_t kLowestBits = std::bit_cast<std::uint32_t>(0x1p-24f);
  static constexpr std::uint32_t kHighestBits = std::bit_cast<std::uint32_t>(0x1p16f) - 1;
  static_assert(LogHistogram::kLog2Min == -24 && LogHistogram::kLog2Max == 16);

  Log2Bins();

  std::vector<Cell> cells_;
};

}  // namespace kv8
