// Sparse attention for prompts: one thread block per group of rows and K/V head, a warp per row.
// The selection blocks of any row pass through shared memory once (prompt_blocks.cuh); each warp
// takes its own out of them (prompt_queue.cuh) and multiplies them (prompt_row.cuh). Contract:
// prompt_attention.h.
#include "ops/cuda/prompt_attention.h"

#include "ops/cuda/prompt_blocks.cuh"
#include "ops/cuda/prompt_row.cuh"

namespace kv8::cuda {

#if __CUDA_ARCH__ >= 800
namespace {

/// All stages. A warp takes blocks of a window of stages together, so that few of its products are
/// of nothing; which, depends on nothing but the list, so a row's sums are always cut alike. The
/// ring's other stages are for copies ahead, and for warps to be ahead of others.
template <KvElement kType, int kDim>
__device__ void RunStages(const Work<kType, kDim>& w, const StoredQueries<kType, kDim>& queries,
                          Row<kType, kDim>& row) {
  using W = Work<kType, kDim>;
  const int stages = (w.list.count + W::kStageBlocks - 1) / W::kStageBlocks;
  const int window = min(max(w.stages - 2, 1), BlockQueue<kType, kDim>::kMaxStages);
  const int ahead = window + max((w.stages - window) / 2, 1) - 1;
  Cursor now, seen, next;  // of `stage`, of the end of its window, and of what is copied then
  for (int stage = 0; stage < ahead; ++stage) {
    if (stage < stages) StartStage(w, stage, next.slot);
    next.Advance(w.stages);
  }
  row.Load(w, queries);
  BlockQueue<kType, kDim> queue(w);
  unsigned coming = OwnBlocks(w, 0);  // of the stage that is looked at next: read long before
  const auto look_at = [&](int stage, int place) {
    if (stage >= stages) return;
    w.Full(seen.slot).Wait(seen.parity);
    queue.Extend(w, coming, stage, seen.slot, place);
    seen.Advance(w.stages);
    if (stage + 1 < stages) coming = OwnBlocks(w, stage + 1);
  };
  for (int i = 0; i + 1 < window; ++i) look_at(i, i);
  for (int stage = 0; stage < stages; ++stage) {
    if (stage + ahead < stages) {
      if (stage + ahead >= w.stages) w.Empty(next.slot).Wait(next.parity ^ 1);
      StartStage(w, stage + ahead, next.slot);
      next.Advance(w.stages);
    }
    look_at(stage + window - 1, window - 1);
    queue.Advance();
    const bool closed = (stage + window) * W::kStageBlocks <= w.list.selected;
    for (; queue.Due(); queue.Pop()) {
      if (!queue.Enough()) queue.Fill(w);
      row.Add(w, queue.Front(), closed && queue.Enough());
    }
    w.Empty(now.slot).Arrive();
    now.Advance(w.stages);
  }
}

template <KvElement kType, int kDim>
__device__ void Attend(const PromptAttentionArgs& args) {
  extern __shared__ __align__(128) unsigned char shared[];
  AfterEarlierKernels();
  Work<kType, kDim> w(args, shared);
  if (w.sequence < 0) return;
  const int heads = w.a.query_heads / w.a.kv.kv_heads;
  // What comes from far is asked for at once, and the selection, which is needed first, first.
  const Selection selection(w);
  const StoredQueries<kType, kDim> queries(w, heads);
  for (int i = static_cast<int>(threadIdx.x) * 4; i < w.kBlockBytes; i += kThreads * 4) {
    *reinterpret_cast<unsigned*>(w.ring + w.Zeros() + i) = 0;
  }
  if (static_cast<int>(threadIdx.x) < w.stages) {
    w.Full(static_cast<int>(threadIdx.x)).Init(kThreads);
    w.Empty(static_cast<int>(threadIdx.x)).Init(kThreads);
  }
  ListBlocks(w, selection);  // its barriers stand between these and their use
  Row<kType, kDim> row(w);
  RunStages(w, queries, row);
  if (w.HasRow()) row.Write(w, heads);
}

}  // namespace

#define KV8_ATTEND(type, dim, args) Attend<KvElement::type, dim>(args)
#else
/// CudaOps computes rows one by one there and launches nothing of this.
#define KV8_ATTEND(type, dim, args)
#endif

#define KV8_PROMPT_ATTENTION(name, type, dim)                               \
  extern "C" __global__ void __launch_bounds__(32 * kPromptGroupRows, 1)    \
      kv8_prompt_attention_##name##_##dim(const PromptAttentionArgs args) { \
    KV8_ATTEND(type, dim, args);                                            \
  }
KV8_PROMPT_ATTENTION(fp16, kFp16, 64)
KV8_PROMPT_ATTENTION(fp16, kFp16, 128)
KV8_PROMPT_ATTENTION(fp16, kFp16, 256)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 64)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 128)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 256)
#undef KV8_PROMPT_ATTENTION
#undef KV8_ATTEND

}  // namespace kv8::cuda
