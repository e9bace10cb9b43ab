// The experts' products for up to kFewRows pairs each. Contract: moe.h.
#include "ops/cuda/expert_product.cuh"
#include "ops/cuda/product_rows.cuh"

namespace kv8::cuda {
namespace {

constexpr int kWarps = 4;

/// Which weights are read is what earlier kernels find out, so none are asked for before they end.
template <WeightFormat kFormat, class P>
__device__ void MultiplyRows(const P& product, int parts) {
  using Rows = RowsProduct<kFormat, kWarps>;
  __shared__ typename Rows::Shared shared;
  Rows rows(product, shared);
  rows.Start();
  rows.Run(product, parts);
}

/// Thread blocks: x over 8 kWarps values of the width, y over CountExpertRows.
template <WeightFormat kFormat>
__device__ void GateUp(const MoeArgs& a) {
  const int y = static_cast<int>(blockIdx.y);
  if (y >= CountExpertRows(a)) return;
  const GateUpProduct<false> product(a, FindExpertRows(a, y),
                                     static_cast<int>(blockIdx.x) * 8 * kWarps);
  if (product.columns() > 0) MultiplyRows<kFormat>(product, a.activation_parts);
}

/// Thread blocks: x over 16 kWarps values of the hidden width, y over CountExpertRows.
template <WeightFormat kFormat>
__device__ void Down(const MoeArgs& a) {
  const int y = static_cast<int>(blockIdx.y);
  if (y >= CountExpertRows(a)) return;
  const DownProduct product(a, FindExpertRows(a, y), static_cast<int>(blockIdx.x) * 16 * kWarps);
  MultiplyRows<kFormat>(product, a.activation_parts);
}

}  // namespace

#define KV8_EXPERTS(name, format)                           \
  extern "C" __global__ void __launch_bounds__(32 * kWarps) \
      kv8_moe_gate_up_##name##_rows(const MoeArgs args) {   \
    AfterEarlierKernels();                                  \
    GateUp<WeightFormat::format>(args);                     \
  }                                                         \
  extern "C" __global__ void __launch_bounds__(32 * kWarps) \
      kv8_moe_down_##name##_rows(const MoeArgs args) {      \
    AfterEarlierKernels();                                  \
    Down<WeightFormat::format>(args);                       \
  }
KV8_EXPERTS(bf16, kBf16)
KV8_EXPERTS(fp16, kFp16)
#undef KV8_EXPERTS

}  // namespace kv8::cuda
