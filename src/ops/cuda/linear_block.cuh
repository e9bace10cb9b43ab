// Which weight rows a block of a linear kernel has.
#pragma once

#include "ops/cuda/linear.h"

namespace kv8::cuda {

struct LinearBlock {
  int part;       // of the outputs
  int first_row;  // of its weight
};

/// blockIdx.x counts blocks of `rows` weight rows, the outputs one after another.
__device__ __forceinline__ LinearBlock FindLinearBlock(const LinearArgs& a, int rows) {
  int block = static_cast<int>(blockIdx.x), part = 0;
  while (true) {
    const int blocks = (static_cast<int>(a.outputs[part].weight.rows) + rows - 1) / rows;
    if (block < blocks) return {part, block * rows};
    block -= blocks;
    ++part;
  }
}

}  // namespace kv8::cuda
