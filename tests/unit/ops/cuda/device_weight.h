// Stored weights on host and device alike.
#pragma once

#include <cstring>
#include <vector>

#include "numeric/half.h"
#include "ops/cuda/moe.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/dense_operands.h"

namespace kv8::cuda {

/// A random weight of a size that keeps products near 1.
class DeviceWeight {
 public:
  DeviceWeight(Device& device, DeviceStream& stream, WeightFormat format, std::int64_t rows,
               std::int64_t cols, std::uint32_t seed)
      : host_(format, rows, cols, seed), device_(device, stream, Codes(host_.view())) {}

  Weight view() const { return host_.view(); }
  /// The same on the device.
  Weight array() const {
    Weight weight = view();
    weight.codes = reinterpret_cast<const std::byte*>(device_.data());
    return weight;
  }
  /// The same as a stack of equal matrices.
  ExpertWeights Stack(std::int64_t count) const {
    const Weight first = array().Rows(0, view().rows / count);
    return {first, first.bytes()};
  }

 private:
  static std::vector<std::uint16_t> Codes(const Weight& view) {
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(view.rows * view.cols));
    std::memcpy(codes.data(), view.codes, codes.size() * sizeof(std::uint16_t));
    return codes;
  }

  StoredWeight host_;
  OnDevice<std::uint16_t> device_;
};

/// x as a product sees it that takes it as so many parts of FP16.
inline std::vector<float> Seen(std::vector<float> x, int parts) {
  for (float& value : x) {
    const float high = DecodeFp16(EncodeFp16(value));
    value = parts == 1 ? high : high + DecodeFp16(EncodeFp16(value - high));
  }
  return x;
}

inline constexpr WeightFormat kDeviceWeightFormats[] = {WeightFormat::kBf16, WeightFormat::kFp16};

}  // namespace kv8::cuda
