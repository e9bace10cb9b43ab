// The experts' products for many pairs each. Contract: moe.h.
#include "ops/cuda/expert_product.cuh"
#include "ops/cuda/product_tiles.cuh"

namespace kv8::cuda {
namespace {

/// Tiles of gate and up, or of down: weight rows first, so that those of the same rows run
/// together.
class ExpertTiles {
 public:
  /// `rows`: tiles of weight rows.
  __device__ ExpertTiles(const MoeArgs& a, int rows)
      : a_(a), rows_((rows + kTileRows - 1) / kTileRows), count_(rows_ * CountExpertRows(a)) {}
  __device__ int count() const { return count_; }

 protected:
  __device__ ExpertRows Rows(int index) const { return FindExpertRows(a_, index / rows_); }

  const MoeArgs& a_;
  const int rows_, count_;
};
struct GateUpTiles : ExpertTiles {
  __device__ explicit GateUpTiles(const MoeArgs& a)
      : ExpertTiles(a, 2 * max(a.expert_dim, a.shared_dim)) {}
  __device__ GateUpProduct<true> At(int index) const {
    return {a_, Rows(index), index % rows_ * kTileRows / 2};
  }
};
struct DownTiles : ExpertTiles {
  __device__ explicit DownTiles(const MoeArgs& a) : ExpertTiles(a, a.hidden) {}
  __device__ DownProduct At(int index) const {
    return {a_, Rows(index), index % rows_ * kTileRows};
  }
};

template <WeightFormat kFormat, class F, class T>
__device__ __forceinline__ void Multiply(const MoeArgs& a) {
  extern __shared__ unsigned char shared[];
  MultiplyTiles<kFormat, F>(T(a), TileRing(shared, a.tile, a.activation_parts));
}

}  // namespace

#define KV8_EXPERT_TILES(name, format, width, forms)               \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 1)    \
      kv8_moe_gate_up_##width##_tiles_##name(const MoeArgs args) { \
    AfterEarlierKernels();                                         \
    Multiply<WeightFormat::format, forms, GateUpTiles>(args);      \
  }                                                                \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 1)    \
      kv8_moe_down_##width##_tiles_##name(const MoeArgs args) {    \
    AfterEarlierKernels();                                         \
    Multiply<WeightFormat::format, forms, DownTiles>(args);        \
  }
KV8_EXPERT_TILES(bf16, kBf16, narrow, NarrowForms)
KV8_EXPERT_TILES(bf16, kBf16, wide, WideExpertForms)
KV8_EXPERT_TILES(fp16, kFp16, narrow, NarrowForms)
KV8_EXPERT_TILES(fp16, kFp16, wide, WideExpertForms)
#undef KV8_EXPERT_TILES

}  // namespace kv8::cuda
