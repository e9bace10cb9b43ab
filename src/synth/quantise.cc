#include "synth/quantise.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>

#include "base/checked.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/half.h"

namespace kv8 {
namespace {

float Magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// A scale in BF16. What is too small for it is 2^-126: codes are then 0, and no scale is.
std::uint16_t EncodeScale(float scale) {
  return EncodeBf16(std::max(scale, 0x1p-126f));
}

std::uint8_t Nvfp4BlockScale(float magnitude, float global_scale) {
  if (magnitude == 0) return EncodeE4M3(1);
  constexpr std::uint8_t kSmallest = 1;
  return std::max(EncodeE4M3(magnitude / (kE2M1Max * global_scale)), kSmallest);
}

/// How the values of a group become codes.
struct Int4Group {
  std::uint16_t scale = 0;
  int zero_point = 8;
};

Int4Group FitInt4(std::span<const float> group, bool symmetric) {
  if (symmetric) {
    const float magnitude = Magnitude(group);
    return {EncodeScale(magnitude == 0 ? 1 : magnitude / 7.5f)};
  }
  const auto [low, high] = std::ranges::minmax(group);
  const float bottom = std::min(low, 0.0f), top = std::max(high, 0.0f);
  Int4Group fit{EncodeScale(bottom == top ? 1 : (top - bottom) / 15)};
  const float zero = std::nearbyint(-bottom / DecodeBf16(fit.scale));
  fit.zero_point = static_cast<int>(std::clamp(zero, 0.0f, 15.0f));
  return fit;
}

std::uint32_t EncodeInt4(float value, const Int4Group& fit) {
  // The zero point is added before rounding: ties go where the published quantisers put them.
  const float code =
      std::nearbyint(value / DecodeBf16(fit.scale) + static_cast<float>(fit.zero_point));
  return static_cast<std::uint32_t>(std::clamp(code, 0.0f, 15.0f));
}

/// Columns [begin, begin + count) of a row.
std::span<const float> Part(std::span<const float> row, std::int64_t begin, std::int64_t count) {
  return row.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

}  // namespace

float Magnitude(ConstMatrix w) {
  float largest = 0;
  for (std::int64_t r = 0; r < w.rows; ++r) largest = std::max(largest, Magnitude(w.row(r)));
  return largest;
}

std::uint16_t Fp8TensorScale(float magnitude) {
  return EncodeScale(magnitude == 0 ? 1 : magnitude / kE4M3Max);
}

std::vector<std::uint8_t> QuantiseFp8(ConstMatrix w, std::uint16_t scale) {
  std::vector<std::uint8_t> codes;
  codes.reserve(static_cast<std::size_t>(w.rows * w.cols));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (const float value : w.row(r)) codes.push_back(QuantizeE4M3(value, DecodeBf16(scale)));
  }
  return codes;
}

Fp8Matrix QuantiseFp8(ConstMatrix w) {
  Fp8Matrix out;
  out.codes.resize(static_cast<std::size_t>(w.rows * w.cols));
  for (std::int64_t top = 0; top < w.rows; top += kFp8BlockSide) {
    for (std::int64_t left = 0; left < w.cols; left += kFp8BlockSide) {
      const ConstMatrix block =
          w.Rows(top, std::min<std::int64_t>(kFp8BlockSide, w.rows - top))
              .Cols(left, std::min<std::int64_t>(kFp8BlockSide, w.cols - left));
      const std::uint16_t scale = Fp8TensorScale(Magnitude(block));
      const std::vector<std::uint8_t> codes = QuantiseFp8(block, scale);
      for (std::int64_t r = 0; r < block.rows; ++r) {
        std::copy_n(codes.begin() + r * block.cols, block.cols,
                    out.codes.begin() + (top + r) * w.cols + left);
      }
      out.scales.push_back(scale);
    }
  }
  return out;
}

float Nvfp4GlobalScale(float magnitude) {
  // Never 0 or subnormal: blocks are divided by it.
  return magnitude == 0 ? 1 : std::max(magnitude / (kE2M1Max * kE4M3Max), 0x1p-126f);
}

Nvfp4Matrix QuantiseNvfp4(ConstMatrix w, float global_scale) {
  assert(w.cols % kNvfp4Group == 0);
  Nvfp4Matrix out;
  out.codes.resize(static_cast<std::size_t>(w.rows * w.cols / 2));
  std::uint8_t* byte = out.codes.data();
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; c += kNvfp4Group) {
      const std::span<const float> block = Part(w.row(r), c, kNvfp4Group);
      const std::uint8_t code = Nvfp4BlockScale(Magnitude(block), global_scale);
      const float scale = DecodeE4M3(code) * global_scale;
      for (std::size_t i = 0; i < block.size(); i += 2) {
        const int low = EncodeE2M1(block[i] / scale), high = EncodeE2M1(block[i + 1] / scale);
        *byte++ = static_cast<std::uint8_t>(low | (high << 4));
      }
      out.scales.push_back(code);
    }
  }
  return out;
}

Int4Matrix QuantiseInt4(ConstMatrix w, int group, bool symmetric) {
  assert(w.cols % group == 0 && group % 8 == 0 && (symmetric || w.rows % 8 == 0));
  const std::int64_t groups = w.cols / group;
  Int4Matrix out;
  if (!symmetric) out.zero_points.resize(static_cast<std::size_t>(w.rows / 8 * groups));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::span<const float> values = Part(w.row(r), g * group, group);
      const Int4Group fit = FitInt4(values, symmetric);
      out.scales.push_back(fit.scale);
      for (std::size_t i = 0; i < values.size(); i += 8) {
        std::uint32_t word = 0;
        for (std::size_t k = 0; k < 8; ++k) word |= EncodeInt4(values[i + k], fit) << (4 * k);
        out.codes.push_back(word);
      }
      if (symmetric) continue;
      out.zero_points[static_cast<std::size_t>(r / 8 * groups + g)] |=
          static_cast<std::uint32_t>(fit.zero_point) << (4 * (r % 8));
    }
  }
  return out;
}

}  // namespace kv8
