// The rows of linear that a thread block multiplies.
#pragma once

#include "ops/cuda/product.cuh"

namespace kv8::cuda {

/// A product of product.cuh. Weight rows from `first_row` of an output, activation rows from
/// `first`, a split.
class LinearProduct {
 public:
  static constexpr int kAtOnce = 1;

  /// `index` counts thread blocks of `rows` weight rows, the outputs one after another.
  __device__ LinearProduct(const LinearArgs& a, int index, int rows, int first, int split)
      : a_(a), first_(first), split_(split), inner_(a.inner / a.splits) {
    int part = 0;
    while (true) {
      const int count = (static_cast<int>(a.outputs[part].weight.rows) + rows - 1) / rows;
      if (index < count) break;
      index -= count;
      ++part;
    }
    output_ = &a.outputs[part];
    first_row_ = index * rows;
  }

  __device__ int inner() const { return inner_; }
  __device__ int columns() const { return min(a_.rows - first_, a_.tile.columns); }
  __device__ std::int64_t plane() const { return static_cast<std::int64_t>(a_.rows) * a_.inner; }
  /// Past the end the last row again: its sums are not stored.
  __device__ const std::uint16_t* WeightRow(int row) const {
    const int there = min(first_row_ + row, static_cast<int>(output_->weight.rows) - 1);
    return Codes16(output_->weight) + static_cast<std::int64_t>(there) * a_.inner + split_ * inner_;
  }
  __device__ const float* Row(int column) const {
    const int row = first_ + column;
    return row < a_.rows ? a_.x + row * a_.x_stride + split_ * inner_ : nullptr;
  }
  __device__ const std::uint16_t* RoundedRow(int column) const {
    const int row = first_ + column;
    return row < a_.rows ? a_.rounded + static_cast<std::int64_t>(row) * a_.inner + split_ * inner_
                         : nullptr;
  }
  template <int kCount>
  __device__ void Store(int tile, int column, const float* d) const {
    static_assert(kCount == 1);
    const int weight_row = first_row_ + 16 * tile + Lane() / 4;
    float* const out = output_->out + static_cast<std::int64_t>(split_) * a_.rows * output_->stride;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = weight_row + 8 * (i / 2), t = first_ + column + i % 2;
      if (row < static_cast<int>(output_->weight.rows) && t < a_.rows) {
        out[t * output_->stride + row] = d[i];
      }
    }
  }

 private:
  const LinearArgs& a_;
  const LinearOutput* output_;
  const int first_, split_, inner_;
  int first_row_;
};

}  // namespace kv8::cuda
