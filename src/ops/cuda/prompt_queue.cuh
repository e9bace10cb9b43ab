// Which pages of the ring a warp multiplies next. Why so: docs/kernels/cuda-prompt-attention.md.
#pragma once

#include "ops/cuda/prompt_pages.cuh"

namespace kv8::cuda {

/// A warp multiplies so many pages at a time: four for each operand of 16 tokens.
inline constexpr int kDeep = 2;
inline constexpr int kTakenPages = 4 * kDeep;

/// Where in the ring a page is, and what of it counts.
struct PagePlace {
  enum Kind : unsigned { kZeros, kOpen, kWhole };
  static constexpr unsigned kKinds = 3;  // offsets are multiples of 16

  unsigned word;

  __device__ PagePlace(int offset, Kind kind) : word(static_cast<unsigned>(offset) | kind) {}
  __device__ __forceinline__ int Offset() const { return static_cast<int>(word & ~kKinds); }
  /// Tokens that count, where so many of the row's open page do.
  __device__ __forceinline__ int Tokens(int open) const {
    const unsigned kind = word & kKinds;
    return kind == kWhole ? kPageTokens : (kind == kOpen ? open : 0);
  }
};

/// A row's own pages of a window of stages, oldest first. The same in all lanes.
template <PageType kType, int kDim>
class PageQueue {
  using W = Work<kType, kDim>;

 public:
  /// Stages of a window at most: the more, the fewer products are of nothing.
  static constexpr int kMaxStages = Min(48 / W::kStagePages, 4);
  static_assert(kMaxStages * W::kStagePages + kTakenPages <= kPromptQueuePages);

  __device__ explicit PageQueue(const W& w)
      : places_(reinterpret_cast<PagePlace*>(w.queues) + w.warp * kPromptQueuePages) {}

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

  /// Whether pages of that stage are left.
  __device__ __forceinline__ bool Due() const { return __any_sync(kFullWarp, due_ > 0); }

  /// Whether there are kTakenPages.
  __device__ __forceinline__ bool Full() const { return pages_ >= kTakenPages; }
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
  int due_ = 0;          // of pages_, those of the stage that is to be done
  unsigned stages_ = 0;  // a byte for each of the window's stages that is not due: its pages
};

}  // namespace kv8::cuda
