// Stored weights on host and device alike.
#pragma once

#include <cstring>
#include <vector>

#include "ops/cuda/linear.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/dense_operands.h"

namespace kv8::cuda {

/// A random weight of a size that keeps products near 1.
class DeviceWeight {
 public:
  DeviceWeight(Device& device, DeviceStream& stream, DType dtype, std::int64_t rows,
               std::int64_t cols, std::uint32_t seed)
      : host_(dtype, rows, cols, seed), device_(device, stream, Codes(host_.view())) {}

  WeightView view() const { return host_.view(); }
  WeightArray array() const {
    return {device_.data(),
            host_.view().dtype == DType::kBF16 ? WeightType::kBf16 : WeightType::kFp16,
            static_cast<std::int32_t>(host_.view().rows)};
  }

 private:
  static std::vector<std::uint16_t> Codes(const WeightView& view) {
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(view.rows * view.cols));
    std::memcpy(codes.data(), view.data, codes.size() * sizeof(std::uint16_t));
    return codes;
  }

  StoredWeight host_;
  OnDevice<std::uint16_t> device_;
};

inline constexpr DType kDeviceWeightTypes[] = {DType::kBF16, DType::kF16};

}  // namespace kv8::cuda
