// Matrices stored in each quantised layout, and what they mean, computed from the whole numbers
// that were stored and not by the product's own decoding.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tensor/dtype.h"

namespace kv8::test {

enum class Layout {
  kFp8Blocks,
  kFp8OneScale,
  kModelOptNvfp4,
  kCompressedNvfp4,
  kCompressedInt4,
  kGptq,    // zero points less one
  kGptqV2,  // zero points themselves
  kAwq,
};

struct LayoutOptions {
  Layout layout = Layout::kModelOptNvfp4;
  int group = 32;            // of INT4
  bool zero_points = false;  // of compressed INT4; the containers always have them
  DType scale_dtype = DType::kBF16;

  bool operator==(const LayoutOptions&) const = default;
};

/// A tensor that owns its bytes.
struct OwnedTensor {
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  TensorView view() const { return {bytes.data(), dtype, shape}; }
};

using OwnedTensors = std::map<std::string, OwnedTensor>;

/// A matrix in a layout: its tensors by the last part of their names, and its values.
struct QuantisedMatrix {
  OwnedTensors tensors;
  std::vector<float> values;  // [rows,cols]; FP32 products in the order of numerics.md
};

/// The nearest that the layout can say of `values` [rows,cols], roughly: tests need it to be exact
/// about what was stored, not a good quantiser.
QuantisedMatrix Quantise(const LayoutOptions& options, std::span<const float> values,
                         std::int64_t rows, std::int64_t cols);

/// Views of them all; `tensors` must outlive it.
SafetensorsContent ViewsOf(const OwnedTensors& tensors);

template <class T>
OwnedTensor MakeTensor(DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace kv8::test
