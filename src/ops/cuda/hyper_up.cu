// The last part of a hyper-connection's mix, x = mean over streams of sigmoid(up . low) * normed,
// up to kFewRows rows at a time. Contract: dense.h.
#include "ops/cuda/dense.h"
#include "ops/cuda/product_rows.cuh"

namespace kv8::cuda {
namespace {

/// Weight rows of one dimension are the streams' gates, so 16 rows are four dimensions.
inline constexpr int kHyperUpDims = kHyperUpWarpDims;
static_assert(kHyperStreams == 4 && kHyperUpDims * kHyperStreams == 16);

/// A product of product.cuh: dimensions from `dim`, rows from `first`. Of its 16 weight rows the
/// first four are stream 0's, then stream 1's and so on.
class HyperUpProduct {
 public:
  __device__ HyperUpProduct(const HyperMixArgs& a, int dim, int first)
      : a_(a), dim_(dim), first_(first), low_(static_cast<int>(a.down.rows)) {}

  __device__ int inner() const { return low_; }
  __device__ const std::uint16_t* WeightRow(int row) const {
    const int dim = min(dim_ + row / 16 * kHyperUpDims + row % kHyperUpDims, a_.hidden - 1);
    const std::int64_t stream = row % 16 / kHyperUpDims;
    return Codes16(a_.up) + (stream * a_.hidden + dim) * low_;
  }
  __device__ const float* Row(int column) const {
    const int row = first_ + column;
    return row < a_.rows ? a_.low + static_cast<std::int64_t>(row) * low_ : nullptr;
  }
  /// A lane has streams 0 and 2 or 1 and 3 of a dimension and two rows; it gives its neighbour one
  /// row and finishes the other.
  template <int kCount>
  __device__ void Store(int tile, int column, const float* d) const {
    static_assert(kCount == 1);
    const int g = Lane() / 4;
    const bool odd = g >= kHyperUpDims;
    const int dim = dim_ + tile * kHyperUpDims + g % kHyperUpDims;
    const int row = first_ + column + (odd ? 1 : 0);
    const float near = __shfl_xor_sync(kFullWarp, odd ? d[0] : d[1], 4 * kHyperUpDims);
    const float far = __shfl_xor_sync(kFullWarp, odd ? d[2] : d[3], 4 * kHyperUpDims);
    if (row >= a_.rows || dim >= a_.hidden) return;
    const float gates[kHyperStreams] = {odd ? near : d[0], odd ? d[1] : near, odd ? far : d[2],
                                        odd ? d[3] : far};
    const float* const normed =
        a_.normed + static_cast<std::int64_t>(row) * kHyperStreams * a_.hidden + dim;
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < kHyperStreams; ++s) {
      sum = fmaf(Sigmoid(gates[s]), normed[s * a_.hidden], sum);
    }
    a_.x[static_cast<std::int64_t>(row) * a_.hidden + dim] =
        sum / static_cast<float>(kHyperStreams);
  }

 private:
  const HyperMixArgs& a_;
  const int dim_, first_, low_;
};

constexpr int kWarps = kHyperUpWarps;

/// Thread blocks: x over kHyperUpDims kWarps dimensions, y over kFewRows rows.
template <WeightFormat kFormat>
__device__ void HyperUp(const HyperMixArgs& a) {
  using Rows = RowsProduct<kFormat, kWarps>;
  __shared__ typename Rows::Shared shared;
  const HyperUpProduct product(a, static_cast<int>(blockIdx.x) * kHyperUpDims * kWarps,
                               static_cast<int>(blockIdx.y) * kFewRows);
  Rows rows(product, shared);
  rows.Start();
  AfterEarlierKernels();
  rows.Run(product, a.activation_parts);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    kv8_hyper_up_bf16(const HyperMixArgs args) {
  HyperUp<WeightFormat::kBf16>(args);
}
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    kv8_hyper_up_fp16(const HyperMixArgs args) {
  HyperUp<WeightFormat::kFp16>(args);
}

}  // namespace kv8::cuda
