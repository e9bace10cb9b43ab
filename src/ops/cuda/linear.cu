// Matrix products with weights as stored, up to kFewRows rows at a time. Contract: linear.h.
#include "ops/cuda/linear.h"

#include "ops/cuda/linear_product.cuh"
#include "ops/cuda/product_rows.cuh"

namespace kv8::cuda {
namespace {

/// Thread blocks: x over 16 kWarps weight rows of all outputs, y over kFewRows activation rows, z
/// over splits of the inner dimension.
template <WeightFormat kFormat, int kWarps>
__device__ void Linear(const LinearArgs& a) {
  using Rows = RowsProduct<kFormat, kWarps>;
  __shared__ typename Rows::Shared shared;
  const LinearProduct product(a, static_cast<int>(blockIdx.x), 16 * kWarps,
                              static_cast<int>(blockIdx.y) * kFewRows,
                              static_cast<int>(blockIdx.z));
  Rows rows(product, shared);
  rows.Start();
  AfterEarlierKernels();
  rows.Run(product, a.activation_parts);
}

}  // namespace

#define KV8_LINEAR(name, format, warps)                        \
  extern "C" __global__ void __launch_bounds__(32 * warps)     \
      kv8_linear_##name##_rows##warps(const LinearArgs args) { \
    Linear<WeightFormat::format, warps>(args);                 \
  }
KV8_LINEAR(bf16, kBf16, 1)
KV8_LINEAR(bf16, kBf16, 4)
KV8_LINEAR(fp16, kFp16, 1)
KV8_LINEAR(fp16, kFp16, 4)
#undef KV8_LINEAR

}  // namespace kv8::cuda
