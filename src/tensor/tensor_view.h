// Views of tensors that somebody else owns.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/dtype.h"

namespace kv8 {

/// A row-major tensor inside a file map. `data` may be unaligned: safetensors promises no
/// alignment.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }
  std::int64_t bytes() const { return elements() * BitsOf(dtype) / 8; }
};

/// "[2, 3]", for messages.
std::string ShapeText(std::span<const std::int64_t> shape);

/// "FILE: tensor NAME", where an error about a tensor is.
std::string TensorPlace(std::string_view file, std::string_view tensor);

/// A row-major float matrix [rows, cols] whose rows lie `stride` elements apart.
template <class T>
struct BasicMatrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  BasicMatrix() = default;
  BasicMatrix(T* p, std::int64_t r, std::int64_t c) : BasicMatrix(p, r, c, c) {}
  BasicMatrix(T* p, std::int64_t r, std::int64_t c, std::int64_t s)
      : data(p), rows(r), cols(c), stride(s) {}
  /// A const view of a mutable matrix.
  template <class U>
  requires(std::is_convertible_v<U (*)[], T (*)[]>)
      BasicMatrix(const BasicMatrix<U>& other)  // NOLINT: implicit by design
      : BasicMatrix(other.data, other.rows, other.cols, other.stride) {}

  std::span<T> row(std::int64_t r) const {
    assert(r >= 0 && r < rows);
    return {data + r * stride, static_cast<std::size_t>(cols)};
  }
  /// Rows [begin, begin + count).
  BasicMatrix Rows(std::int64_t begin, std::int64_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= rows);
    return {data + begin * stride, count, cols, stride};
  }
  /// Columns [begin, begin + count) of every row.
  BasicMatrix Cols(std::int64_t begin, std::int64_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= cols);
    return {data + begin, rows, count, stride};
  }
};

using Matrix = BasicMatrix<float>;
using ConstMatrix = BasicMatrix<const float>;

}  // namespace kv8
