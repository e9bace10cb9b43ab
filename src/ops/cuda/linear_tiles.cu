// Matrix products with weights as stored, many rows at a time, and what rounds their activations.
// Contract: linear.h.
#include "ops/cuda/linear.h"

#include "ops/cuda/linear_product.cuh"
#include "ops/cuda/product_tiles.cuh"

namespace kv8::cuda {
namespace {

constexpr int kRoundThreads = 256;
/// Tiles of weight rows that are taken one after another before others of activation rows: what is
/// multiplied at the same time then shares both in the second-level cache.
constexpr int kTilesTogether = 16;

class LinearTiles {
 public:
  __device__ explicit LinearTiles(const LinearArgs& a)
      : a_(a), across_((a.rows + a.tile.columns - 1) / a.tile.columns) {
    for (int i = 0; i < a.count; ++i) {
      rows_ += (static_cast<int>(a.outputs[i].weight.rows) + kTileRows - 1) / kTileRows;
    }
  }
  __device__ int count() const { return rows_ * across_ * a_.splits; }
  __device__ LinearProduct At(int index) const {
    const int split = index / (rows_ * across_), of_split = index % (rows_ * across_);
    const int together = of_split / (kTilesTogether * across_);
    const int within = of_split % (kTilesTogether * across_);
    const int count = min(kTilesTogether, rows_ - together * kTilesTogether);
    return {a_, together * kTilesTogether + within % count, kTileRows,
            within / count * a_.tile.columns, split};
  }

 private:
  const LinearArgs& a_;
  const int across_;  // tiles of activation rows
  int rows_ = 0;      // tiles of weight rows
};

template <WeightFormat kFormat, class F>
__device__ __forceinline__ void Multiply(const LinearArgs& a) {
  extern __shared__ unsigned char shared[];
  AfterEarlierKernels();
  MultiplyTiles<kFormat, F>(LinearTiles(a), TileRing(shared, a.tile, a.activation_parts));
}

}  // namespace

#define KV8_LINEAR_TILES(name, format, width, forms)             \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 1)  \
      kv8_linear_##width##_tiles_##name(const LinearArgs args) { \
    Multiply<WeightFormat::format, forms>(args);                 \
  }
KV8_LINEAR_TILES(bf16, kBf16, narrow, NarrowForms)
KV8_LINEAR_TILES(bf16, kBf16, wide, WideLinearForms)
KV8_LINEAR_TILES(fp16, kFp16, narrow, NarrowForms)
KV8_LINEAR_TILES(fp16, kFp16, wide, WideLinearForms)
#undef KV8_LINEAR_TILES

/// Thread blocks: x over 4 kRoundThreads values of a row, y over rows.
extern "C" __global__ void __launch_bounds__(kRoundThreads) kv8_round_rows(const RoundArgs a) {
  AfterEarlierKernels();
  const int k = 4 * static_cast<int>(blockIdx.x * kRoundThreads + threadIdx.x);
  if (k >= a.inner) return;
  const std::int64_t row = blockIdx.y;
  StoreRounded(a.rounded + row * a.inner, k,
               *reinterpret_cast<const float4*>(a.x + row * a.x_stride + k), a.activation_parts,
               static_cast<std::int64_t>(a.rows) * a.inner);
}

}  // namespace kv8::cuda
