// Products of up to eight rows of activations: each warp reads 16 weight rows through a ring of its
// own in shared memory, so that much is on its way from memory however few warps there are.
#pragma once

#include "ops/cuda/product.cuh"

namespace kv8::cuda {

/// A thread block of kWarps warps has 16 kWarps weight rows. Start, then AfterEarlierKernels(),
/// then Run: weights are no kernel's result, so they are asked for before earlier kernels have
/// ended.
template <WeightFormat kFormat, int kWarps>
class RowsProduct {
 public:
  static constexpr int kStages = 24 / kWarps;
  struct Shared {
    uint4 stages[kWarps][kStages][16 * kStageVectors];
  };

  template <class P>
  __device__ RowsProduct(const P& product, Shared& shared)
      : ring_(shared.stages[Warp()]), inner_(product.inner()) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      from_[i] = product.WeightRow(16 * Warp() + CopyRow(i)) + 8 * (Lane() % kStageVectors);
    }
  }

  __device__ void Start() {
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) Copy(step, step);
  }

  template <class P>
  __device__ void Run(const P& product, int parts) {
    const float* const row = product.Row(Lane() / 4);
    float4 x[kAhead][4];
#pragma unroll
    for (int i = 0; i < kAhead - 1; ++i) Load(row, i * kProductStage, x[i]);
    float sums[4] = {};
    int step = 0, stage = 0;
    while (step * kProductStage < inner_) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i, ++step) {
        if (step * kProductStage >= inner_) break;
        WaitForCopies<kStages - 2>();
        __syncwarp();  // all lanes' copies are there, and the stage before has been read
        Copy(step + kStages - 1, stage == 0 ? kStages - 1 : stage - 1);
        Load(row, (step + kAhead - 1) * kProductStage, x[(i + kAhead - 1) % kAhead]);
        Multiply(stage, x[i], sums, parts);
        stage = stage + 1 == kStages ? 0 : stage + 1;
      }
    }
    product.template Store<1>(Warp(), 2 * (Lane() % 4), sums);
  }

 private:
  static constexpr int kCopies = 16 * kStageVectors / 32;
  static constexpr int kAhead = 4;  // stages whose activations are in registers or on their way

  __device__ static __forceinline__ int CopyRow(int i) {
    return Lane() / kStageVectors + 4 * i;
  }

  __device__ __forceinline__ void Copy(int step, int stage) {
    const int k = step * kProductStage;
    if (k < inner_) {
      const bool inside = k + 8 * (Lane() % kStageVectors) < inner_;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        CopyToShared16(ring_[stage] + StagePlace(CopyRow(i), Lane() % kStageVectors),
                       reinterpret_cast<const unsigned char*>(from_[i] + k), inside);
      }
    }
    CommitCopies();
  }

  /// This lane's 16 values of a stage.
  __device__ __forceinline__ void Load(const float* row, int k, float4 (&x)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = k + i / 2 * kProductPiece + 8 * (Lane() % 4) + 4 * (i % 2);
      x[i] = row != nullptr && at < inner_ ? *reinterpret_cast<const float4*>(row + at)
                                           : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }

  __device__ __forceinline__ void Multiply(int stage, const float4 (&x)[4], float (&sums)[4],
                                           int parts) const {
    const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      const uint4 above = ring_[stage][StagePlace(g, 4 * piece + t)];
      const uint4 below = ring_[stage][StagePlace(g + 8, 4 * piece + t)];
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        const SplitActivations split(x[2 * piece + block]);
        unsigned fragment[4];
        WeightFragment<kFormat>(fragment, above, below, block);
        MmaFp16(sums, fragment, split.high.x, split.high.y);
        if (parts == 2) MmaFp16(sums, fragment, split.low.x, split.low.y);
      }
    }
  }

  uint4 (&ring_)[kStages][16 * kStageVectors];
  const int inner_;
  const std::uint16_t* from_[kCopies];
};

}  // namespace kv8::cuda
