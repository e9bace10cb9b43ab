// A histogram of magnitudes by their logarithm, and the bin of a float without a logarithm per
// value.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace kv8 {

/// Histogram of log2|x|: 4,096 equal bins over [-24, 16); values outside go to the first or last
/// bin; zeros and non-finite values are counted apart.
struct LogHistogram {
  static constexpr int kBins = 4096;
  static constexpr double kLog2Min = -24;
  static constexpr double kLog2Max = 16;
  static constexpr double kBinsPerOctave = kBins / (kLog2Max - kLog2Min);

  /// The bin of |x| = `magnitude`, which must be finite and positive.
  static int BinOf(double magnitude) {
    assert(std::isfinite(magnitude) && magnitude > 0);
    const double bin = std::floor((std::log2(magnitude) - kLog2Min) * kBinsPerOctave);
    return static_cast<int>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)));
  }
  /// Upper edge of a bin, as a magnitude.
  static double UpperEdge(int bin) { return std::exp2(kLog2Min + (bin + 1) / kBinsPerOctave); }
  /// Geometric middle of a bin. In FP32, so that C libraries agree on it.
  static float Middle(int bin) {
    return static_cast<float>(std::exp2(kLog2Min + (bin + 0.5) / kBinsPerOctave));
  }

  std::array<std::uint64_t, kBins> bins{};
};

/// Gives LogHistogram::BinOf for every positive finite float. A cell is all floats that share sign,
/// exponent and the first 8 bits of the mantissa: at most log2(1 + 1/256) = 0.0056 octaves wide,
/// less than a bin's 0.0098, so that one edge at most lies inside of it.
class Log2Bins {
 public:
  struct Cell {
    std::uint32_t bin = 0;        // of the cell's lowest float
    std::uint32_t next_edge = 0;  // bits of the lowest float of the next bin, or beyond the cell
  };
  static constexpr int kCellShift = 15;
  static constexpr std::uint32_t kLowestBits = std::bit_cast<std::uint32_t>(0x1p-24f);
  static constexpr std::uint32_t kHighestBits = std::bit_cast<std::uint32_t>(0x1p16f) - 1;
  static_assert(LogHistogram::kLog2Min == -24 && LogHistogram::kLog2Max == 16);

  /// Tables, built once per process (about 100,000 logarithms, a few milliseconds).
  static const Log2Bins& Get() {
    static const Log2Bins kBins;
    return kBins;
  }

  /// `bits` is the bit pattern of a positive finite float.
  std::uint32_t BinOf(std::uint32_t bits) const {
    const std::uint32_t inside = std::clamp(bits, kLowestBits, kHighestBits);
    const Cell cell = cells_[(inside - kLowestBits) >> kCellShift];
    return cell.bin + (inside >= cell.next_edge ? 1 : 0);
  }
  /// The table that BinOf reads, for devices that look up themselves.
  std::span<const Cell> cells() const { return cells_; }

 private:
  Log2Bins() {
    constexpr std::uint32_t kCells = ((kHighestBits - kLowestBits) >> kCellShift) + 1;
    cells_.reserve(kCells);
    for (std::uint32_t i = 0; i < kCells; ++i) {
      const std::uint32_t lowest = kLowestBits + (i << kCellShift);
      cells_.push_back({BinOfBits(lowest), NextEdge(lowest, lowest + (1u << kCellShift) - 1)});
    }
  }

  static std::uint32_t BinOfBits(std::uint32_t bits) {
    return static_cast<std::uint32_t>(LogHistogram::BinOf(std::bit_cast<float>(bits)));
  }

  /// Lowest bit pattern in (low, high] whose bin is above that of `low`; high + 1 when there is
  /// none.
  static std::uint32_t NextEdge(std::uint32_t low, std::uint32_t high) {
    const std::uint32_t bin = BinOfBits(low);
    if (BinOfBits(high) == bin) return high + 1;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (BinOfBits(middle) > bin ? high : low) = middle;
    }
    return high;
  }

  std::vector<Cell> cells_;
};

}  // namespace kv8
