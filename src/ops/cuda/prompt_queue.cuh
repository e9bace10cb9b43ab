// Which pages of the ring a warp multiplies next. Why so: docs/kernels/cuda-prompt-attention.md.
#pragma once

#include "ops/cuda/prompt_pages.cuh"

namespace kv8::cuda {

inline constexpr int kDeep = 2;  // operands of 16 tokens that a warp multiplies at a time
inline constexpr int kTakenPages = 4 * kDeep;  // their pages

/// A row's own pages of a window of stages, oldest first. The same in all lanes.
template <PageType kType, int kDim>
class PageQueue {
  using W = Work<kType, kDim>;

 public:
  /// Stages of a window at most: the more, the fewer products are of nothing. The queue has room
  /// for their pages and those just taken, `stages_` for their counts.
  static constexpr int kMaxStages = 3;
  static_assert(kMaxStages * W::kStagePages + kTakenPages <= kPromptQueuePages && kMaxStages <= 4);

  __device__ explicit PageQueue(const W& w) : places_(w.queues + w.warp * kPromptQueuePages) {}

  /// Adds pages of `stage`, which is at `slot` of the ring and the window's `place`-th: those of
  /// `own`, by bits.
  __device__ __forceinline__ void Extend(const W& w, unsigned own, int stage, int slot, int place) {
    const int lane = w.lane();
    if ((own >> lane & 1) != 0) {
      const int rank = __popc(own & ((1u << lane) - 1));
      const bool open = stage * W::kStagePages + lane >= w.list.selected;
      *Entry(rank) = PagePlace((slot * W::kStagePages + lane) * W::kPageBytes,
                               open ? PagePlace::kOpen : PagePlace::kWhole);
    }
    __syncwarp();
    const int count = __popc(own);
    pages_ += count;
    stages_ |= static_cast<unsigned>(count) << (8 * place);
  }

  /// The window's next stage becomes the one to be done.
  __device__ __forceinline__ void Advance() {
    due_ += static_cast<int>(stages_ & 0xFF);
    stages_ >>= 8;
  }

  /// Whether pages of that stage are left. By vote: the compiler sees that lanes agree.
  __device__ __forceinline__ bool Due() const { return __any_sync(kFullWarp, due_ > 0); }

  /// Whether there are kTakenPages.
  __device__ __forceinline__ bool Enough() const { return pages_ >= kTakenPages; }
  /// Has zeros in place of the missing ones of kTakenPages.
  __device__ __forceinline__ void Fill(const W& w) {
    if (w.lane() < kTakenPages - pages_) {
      *Entry(w.lane()) = PagePlace(w.Zeros(), PagePlace::kZeros);
    }
    __syncwarp();
  }
  __device__ __forceinline__ const PagePlace* Front() const { return places_ + head_; }
  __device__ __forceinline__ void Pop() {
    due_ -= min(pages_, kTakenPages);
    pages_ = max(pages_ - kTakenPages, 0);
    head_ = (head_ + kTakenPages) % kPromptQueuePages;
  }

 private:
  /// The i-th after the last.
  __device__ __forceinline__ PagePlace* Entry(int i) const {
    return places_ + static_cast<unsigned>(head_ + pages_ + i) % kPromptQueuePages;
  }

  PagePlace* const places_;
  int head_ = 0, pages_ = 0;
  // Of pages_, those of the stage that is to be done; below zero where pages of later ones are
  // taken.
  int due_ = 0;
  unsigned stages_ = 0;  // a byte for each of the window's stages that is not due: its pages
};

}  // namespace kv8::cuda
