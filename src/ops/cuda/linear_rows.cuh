// Which weight rows a thread block of a linear kernel has.
#pragma once

#include "ops/cuda/linear.h"

namespace kv8::cuda {

/// The rows of one thread block.
struct LinearRows {
  int part;       // of the outputs
  int first_row;  // of its weight
};

/// blockIdx.x counts thread blocks of `rows` weight rows, the outputs one after another.
__device__ __forceinline__ LinearRows FindLinearRows(const LinearArgs& a, int rows) {
  int index = static_cast<int>(blockIdx.x), part = 0;
  while (true) {
    const int count = (static_cast<int>(a.outputs[part].weight.rows) + rows - 1) / rows;
    if (index < count) return {part, index * rows};
    index -= count;
    ++part;
  }
}

}  // namespace kv8::cuda
