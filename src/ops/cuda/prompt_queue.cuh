// Which blocks of the ring a warp multiplies next. Why so: docs/kernels/cuda-prompt-attention.md.
#pragma once

#include "ops/cuda/prompt_blocks.cuh"

namespace kv8::cuda {

inline constexpr int kDeep = 2;  // operands of 16 tokens that a warp multiplies at a time
inline constexpr int kTakenBlocks = 4 * kDeep;  // their blocks

/// A row's own blocks of a window of stages, oldest first. The same in all lanes.
template <KvElement kType, int kDim>
class BlockQueue {
  using W = Work<kType, kDim>;

 public:
  /// Stages of a window at most: the more, the fewer products are of nothing. The queue has room
  /// for their blocks and those just taken, `stages_` for their counts.
  static constexpr int kMaxStages = 3;
  static_assert(kMaxStages * W::kStageBlocks + kTakenBlocks <= kPromptQueueBlocks &&
                kMaxStages <= 4);

  __device__ explicit BlockQueue(const W& w) : places_(w.queues + w.warp * kPromptQueueBlocks) {}

  /// Adds blocks of `stage`, which is at `slot` of the ring and the window's `place`-th: those of
  /// `own`, by bits.
  __device__ __forceinline__ void Extend(const W& w, unsigned own, int stage, int slot, int place) {
    const int lane = w.lane();
    if ((own >> lane & 1) != 0) {
      const int rank = __popc(own & ((1u << lane) - 1));
      const bool open = stage * W::kStageBlocks + lane >= w.list.selected;
      *Entry(rank) = BlockPlace((slot * W::kStageBlocks + lane) * W::kBlockBytes,
                                open ? BlockPlace::kOpen : BlockPlace::kWhole);
    }
    __syncwarp();
    const int count = __popc(own);
    blocks_ += count;
    stages_ |= static_cast<unsigned>(count) << (8 * place);
  }

  /// The window's next stage becomes the one to be done.
  __device__ __forceinline__ void Advance() {
    due_ += static_cast<int>(stages_ & 0xFF);
    stages_ >>= 8;
  }

  /// Whether blocks of that stage are left. By vote: the compiler sees that lanes agree.
  __device__ __forceinline__ bool Due() const { return __any_sync(kFullWarp, due_ > 0); }

  /// Whether there are kTakenBlocks.
  __device__ __forceinline__ bool Enough() const { return blocks_ >= kTakenBlocks; }
  /// Has zeros in place of the missing ones of kTakenBlocks.
  __device__ __forceinline__ void Fill(const W& w) {
    if (w.lane() < kTakenBlocks - blocks_) {
      *Entry(w.lane()) = BlockPlace(w.Zeros(), BlockPlace::kZeros);
    }
    __syncwarp();
  }
  __device__ __forceinline__ const BlockPlace* Front() const { return places_ + head_; }
  __device__ __forceinline__ void Pop() {
    due_ -= min(blocks_, kTakenBlocks);
    blocks_ = max(blocks_ - kTakenBlocks, 0);
    head_ = (head_ + kTakenBlocks) % kPromptQueueBlocks;
  }

 private:
  /// The i-th after the last.
  __device__ __forceinline__ BlockPlace* Entry(int i) const {
    return places_ + static_cast<unsigned>(head_ + blocks_ + i) % kPromptQueueBlocks;
  }

  BlockPlace* const places_;
  int head_ = 0, blocks_ = 0;
  // Of blocks_, those of the stage that is to be done; below zero where blocks of later ones are
  // taken.
  int due_ = 0;
  unsigned stages_ = 0;  // a byte for each of the window's stages that is not due: its blocks
};

}  // namespace kv8::cuda
