// Random weights in every format that has scales.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "numeric/e4m3.h"
#include "numeric/half.h"
#include "tensor/weight.h"

namespace kv8 {

/// What a weight's format and its scales can be together.
struct QuantisedForm {
  WeightFormat format;
  ScaleFormat scale_format = ScaleFormat::kNone;
  std::int32_t group = 0, group_rows = 1;
  bool zero_points = false;
  float global_scale = 1;

  std::string name() const {
    return std::string(Name(format)) + " scales " + std::to_string(int(scale_format)) + " group " +
           std::to_string(group) + " rows " + std::to_string(group_rows) + " zero points " +
           std::to_string(zero_points);
  }
};

inline const std::vector<QuantisedForm>& QuantisedForms() {
  using enum ScaleFormat;
  static const std::vector<QuantisedForm> forms = [] {
    std::vector<QuantisedForm> all = {
        {.format = WeightFormat::kFp8, .global_scale = 0.37f},
        {WeightFormat::kFp8, kFp32, 128, 128},
        {WeightFormat::kFp8, kBf16, 128, 128},
        {WeightFormat::kNvfp4, kE4m3, 16, 1, false, 0.0123f},
    };
    for (const bool zero_points : {false, true}) {
      for (const int group : {16, 24, 32, 64, 128, 4096}) {
        all.push_back({WeightFormat::kInt4, kBf16, group, 1, zero_points});
      }
      all.push_back({WeightFormat::kInt4, kFp16, 32, 1, zero_points});
      all.push_back({WeightFormat::kInt4, kFp32, 32, 1, zero_points});
    }
    return all;
  }();
  return forms;
}

/// A random weight of a size that keeps products of `cols` terms near 1, its parts at odd
/// addresses, as safetensors allows, and right before memory that is not there to be read.
class QuantisedWeight {
 public:
  QuantisedWeight(const QuantisedForm& form, std::int64_t rows, std::int64_t cols,
                  std::uint32_t seed)
      : weight_{.format = form.format,
                .rows = rows,
                .cols = cols,
                .global_scale = form.global_scale,
                .group = form.group,
                .group_rows = form.group_rows,
                .scale_format = form.scale_format} {
    std::mt19937 engine(seed);
    Fill(codes_, rows * weight_.code_row_bytes(), engine, 256);
    if (form.format == WeightFormat::kFp8) TameFp8();
    const double code_size = form.format == WeightFormat::kInt4    ? 6
                             : form.format == WeightFormat::kNvfp4 ? 3
                                                                   : 1;
    const double size = 1 / (code_size * std::sqrt(static_cast<double>(cols)));
    if (form.group == 0) weight_.global_scale = static_cast<float>(size);
    const std::int64_t groups = weight_.scale_rows() * weight_.scale_cols();
    FillScales(groups, size / static_cast<double>(form.global_scale), engine);
    if (form.zero_points) Fill(zero_points_, groups, engine, 16);
  }

  Weight view() const {
    Weight weight = weight_;
    weight.codes = codes_.data() + 1;
    if (weight.group > 0) weight.scales = scales_.data() + 1;
    if (!zero_points_.empty()) weight.zero_points = zero_points_.data() + 1;
    return weight;
  }
  std::byte* codes() { return codes_.data() + 1; }
  std::byte* scales() { return scales_.data() + 1; }

 private:
  static void Fill(std::vector<std::byte>& bytes, std::int64_t count, std::mt19937& engine,
                   int values) {
    std::uniform_int_distribution<int> uniform(0, values - 1);
    bytes.resize(static_cast<std::size_t>(count + 1));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(uniform(engine));
    bytes.shrink_to_fit();
  }
  /// Codes of up to +-1.875, subnormals among them.
  void TameFp8() {
    for (std::byte& byte : codes_) byte &= std::byte{0xBF};
  }
  void FillScales(std::int64_t count, double size, std::mt19937& engine) {
    std::uniform_real_distribution<double> uniform(0.5 * size, 1.5 * size);
    const int bytes = ScaleBytes(weight_.scale_format);
    scales_.resize(static_cast<std::size_t>(count * bytes + 1));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto scale = static_cast<float>(uniform(engine));
      const std::uint8_t e4m3 = EncodeE4M3(scale);
      const std::uint16_t half =
          weight_.scale_format == ScaleFormat::kBf16 ? EncodeBf16(scale) : EncodeFp16(scale);
      const void* from = bytes == 1   ? static_cast<const void*>(&e4m3)
                         : bytes == 2 ? static_cast<const void*>(&half)
                                      : static_cast<const void*>(&scale);
      std::memcpy(scales() + i * bytes, from, static_cast<std::size_t>(bytes));
    }
  }

  Weight weight_;
  std::vector<std::byte> codes_, scales_, zero_points_;
};

}  // namespace kv8
