// Rows of one sequence, as the kernels of Gated DeltaNet find them.
#pragma once

#include "ops/cuda/common.cuh"
#include "ops/cuda/gdn.h"

namespace kv8::cuda {

struct GdnSliceRows {
  int slot, begin, count;
};
__device__ __forceinline__ GdnSliceRows FindGdnSlice(const SlicesView& slices, int index) {
  return {slices.slot[index], slices.row_begin[index], slices.row_count[index]};
}

/// The log decay of a row: never positive.
__device__ __forceinline__ float GdnLogDecay(const GdnArgs& a, std::int64_t row, int head) {
  return a.decay[head] * Softplus(a.a[row * a.value_heads + head] + a.dt_bias[head]);
}

}  // namespace kv8::cuda
