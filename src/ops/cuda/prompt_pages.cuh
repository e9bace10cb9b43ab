// The pages of a group of prompt rows: which they are, whose, and their way through shared memory.
// Why so: docs/kernels/cuda-prompt-attention.md.
#pragma once

#include "ops/cuda/attention.cuh"
#include "ops/cuda/prompt_attention.h"

namespace kv8::cuda {

inline constexpr int kWarps = kPromptGroupRows;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kPagesPerBlock = kTokensPerBlock / kPageTokens;

/// The lane, in a register: a compiler short of them reads it anew wherever it is used, and waits.
class KeptLane {
 public:
  __device__ KeptLane() : lane_(Lane()) { asm volatile("" : "+r"(lane_)); }
  __device__ __forceinline__ int operator()() const { return lane_ % 32u; }

 private:
  unsigned lane_;
};

/// A barrier in shared memory: its phases end when so many have arrived.
struct Barrier {
  unsigned address;

  __device__ __forceinline__ void Init(int arrivals) const {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(address), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void Arrive() const {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
                 :
                 : "r"(address)
                 : "memory");
  }
  /// Arrives when all copies that this thread has started are done.
  __device__ __forceinline__ void ArriveAfterCopies() const {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(address) : "memory");
  }
  /// Waits until the phase of this parity has ended.
  __device__ __forceinline__ void Wait(int parity) const {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(address), "r"(parity)
          : "memory");
    }
  }
};

/// The turn of a token's V: the tokens of two pages are read together, and meet no other's banks
/// where one of the pages has an even place and one an odd one.
__device__ __forceinline__ int ValueTurn(int page, int token) {
  return page % 2 * kPageTokens + token;
}

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

/// Pages of a group: those that any row selects, ascending, then each row's open page.
struct PageList {
  std::uint32_t* page;  // in the sequence; after Locate where its K is in the pool, in sides
  // A byte for each page, bit r: row r attends to it. After Locate a byte for each row of each
  // eight pages, bit i: it attends to the i-th of them.
  unsigned char* rows;
  int selected, count;
  unsigned open;  // bit r: row r has an open page
};

/// A block's work and its shared memory.
template <PageType kType, int kDim>
struct Work {
  static constexpr int kRowBytes = kDim * kElementBytes<kType>;
  static constexpr int kSideBytes = kPageTokens * kRowBytes;
  static constexpr int kPageBytes = 2 * kSideBytes;
  static constexpr int kStagePages = PromptStagePages(kDim, kType);
  static constexpr int kPagesPerWarp = kStagePages / kWarps;  // that a warp copies of a stage

  const SparseAttentionArgs& a;
  const RowGroup group;
  const int warp, kv_head, sequence, stages;
  const KeptLane lane;
  unsigned char* const ring;  // [stage][page][K|V][token]; before, the map of selected pages
  uint4* const scratch;       // of each warp: fragments of queries, then output
  unsigned char* const barriers;
  PageList list;
  int* const sums;          // [warps]
  PagePlace* const queues;  // [warps][kPromptQueuePages]

  __device__ Work(const PromptAttentionArgs& args, unsigned char* shared)
      : a(args.attention),
        group{args.groups[blockIdx.x].begin - args.first_row, args.groups[blockIdx.x].count},
        warp(__shfl_sync(kFullWarp, Warp(), 0)),  // the compiler sees that lanes agree
        kv_head(static_cast<int>(blockIdx.y)),
        sequence(a.rows.sequence[group.begin]),
        stages(args.stages),
        ring(shared),
        scratch(reinterpret_cast<uint4*>(shared + Zeros() + kPageBytes)),
        barriers(shared + Zeros() + kPageBytes + kWarps * kPromptScratchBytes),
        list{reinterpret_cast<std::uint32_t*>(barriers + 16 * kMaxPromptStages),
             reinterpret_cast<unsigned char*>(list.page + PromptListPages(a.budget_blocks)) +
                 4 * kWarps * (1 + kPromptQueuePages),
             0, 0, 0},
        sums(reinterpret_cast<int*>(list.page + PromptListPages(a.budget_blocks))),
        queues(reinterpret_cast<PagePlace*>(sums + kWarps)) {}

  /// Where, behind the ring, a page of zeros is.
  __device__ int Zeros() const { return stages * kStagePages * kPageBytes; }

  /// End when a stage of the ring is there, and when all rows are done with it.
  __device__ Barrier Full(int slot) const {
    return {SharedAddress(barriers) + static_cast<unsigned>(slot) * 16};
  }
  __device__ Barrier Empty(int slot) const { return {Full(slot).address + 8}; }

  /// Whether this warp has a row.
  __device__ bool HasRow() const { return warp < group.count; }
  /// Its row, or another where it has none.
  __device__ int RowIndex() const { return group.begin + min(warp, group.count - 1); }
  /// Tokens of a row's open page.
  __device__ int OpenTokens(int row) const {
    return static_cast<int>((a.rows.position[group.begin + row] + 1) % kPageTokens);
  }
};

/// This warp's row's selection: what is read before there is anything to do with it.
struct Selection {
  static constexpr int kHeld = 16;

  const std::int32_t* pages;
  int count;
  int held[kHeld];  // its entries 32 i + lane; anything from `count` on

  template <PageType kType, int kDim>
  __device__ explicit Selection(const Work<kType, kDim>& w)
      : pages(w.a.blocks + static_cast<std::int64_t>(w.RowIndex()) * w.a.budget_blocks),
        count(w.HasRow() ? w.a.counts[w.RowIndex()] : 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = pages[min(32 * i + Lane(), w.a.budget_blocks - 1)];
  }

  /// Calls mark(page) for each of this lane's.
  template <class Mark>
  __device__ void ForEach(Mark&& mark) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (32 * i + Lane() < count) mark(held[i]);
    }
    for (int i = 32 * kHeld + Lane(); i < count; i += 32) mark(pages[i]);
  }
};

/// Ranks the bytes of all lanes' words of which the lowest bit is set, in order, `first` the rank
/// of the first of them, and calls put(rank, byte) for each of this lane's. Returns their number.
template <class Put>
__device__ __forceinline__ int RankBytes(unsigned flags, int first, Put&& put) {
  const unsigned below = (1u << Lane()) - 1;
  int rank = first, count = 0;
#pragma unroll
  for (int byte = 0; byte < 4; ++byte) {
    const unsigned votes = __ballot_sync(kFullWarp, flags >> (8 * byte) & 1);
    rank += __popc(votes & below);
    count += __popc(votes);
  }
#pragma unroll
  for (int byte = 0; byte < 4; ++byte) {
    if ((flags >> (8 * byte) & 1) != 0) put(rank++, byte);
  }
  return count;
}

/// The lowest bit of each byte that is not zero.
__device__ __forceinline__ unsigned NonzeroBytes(unsigned word) {
  return __vcmpne4(word, 0u) & 0x01010101u;
}

/// Puts the selected ones of `pages` pages from `first` on at the end of the list. `map` has a byte
/// for each, in which bit r is row r's.
template <PageType kType, int kDim>
__device__ void Unite(Work<kType, kDim>& w, const Selection& selection, unsigned* map, int first,
                      int pages) {
  const int words = (pages + 3) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) map[i] = 0;
  __syncthreads();
  selection.ForEach([&](int selected) {
    const int page = selected - first;
    if (page >= 0 && page < pages) atomicOr(map + page / 4, 1u << (page % 4 * 8 + w.warp));
  });
  __syncthreads();
  const int share = (words + kThreads - 1) / kThreads * 32;  // of a warp, neighbours
  const int begin = min(w.warp * share, words), end = min(begin + share, words);
  int mine = 0;
#pragma unroll 8
  for (int i = begin + Lane(); i < end; i += 32) mine += __popc(NonzeroBytes(map[i]));
  mine = __reduce_add_sync(kFullWarp, mine);
  if (Lane() == 0) w.sums[w.warp] = mine;
  __syncthreads();
  int at = w.list.selected;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < w.warp) at += w.sums[warp];
    w.list.selected += w.sums[warp];
  }
#pragma unroll 2
  for (int i = begin; i < end; i += 32) {
    const unsigned word = i + Lane() < end ? map[i + Lane()] : 0;
    at += RankBytes(NonzeroBytes(word), at, [&](int rank, int byte) {
      w.list.page[rank] = static_cast<std::uint32_t>(first + 4 * (i + Lane()) + byte);
      w.list.rows[rank] = static_cast<unsigned char>(word >> (8 * byte));
    });
  }
  __syncthreads();  // map and sums are used again
}

/// Bit 8 i + r becomes bit 8 r + i.
__device__ __forceinline__ std::uint64_t Transposed(std::uint64_t bits) {
  const auto exchange = [&bits](int distance, std::uint64_t mask) {
    const std::uint64_t differ = (bits ^ (bits >> distance)) & mask;
    bits ^= differ ^ (differ << distance);
  };
  exchange(7, 0x00AA00AA00AA00AA);
  exchange(14, 0x0000CCCC0000CCCC);
  exchange(28, 0x00000000F0F0F0F0);
  return bits;
}

/// Says where in the pool the list's pages are, and of each eight which are whose.
template <PageType kType, int kDim>
__device__ void Locate(const Work<kType, kDim>& w) {
  const std::int32_t* const table = w.a.tables.blocks + w.sequence * w.a.tables.stride;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < w.list.count; i += kThreads) {
    const std::uint32_t page = w.list.page[i];
    const auto block = static_cast<std::uint32_t>(table[page / kPagesPerBlock]);
    w.list.page[i] = (block * 2 * static_cast<std::uint32_t>(w.a.kv.kv_heads) +
                      static_cast<std::uint32_t>(w.kv_head)) *
                         kPagesPerBlock +
                     page % kPagesPerBlock;
  }
  auto* const eight = reinterpret_cast<std::uint64_t*>(w.list.rows);
  for (int i = static_cast<int>(threadIdx.x); i < PromptListPages(w.a.budget_blocks) / 8;
       i += kThreads) {
    const int absent = 8 - min(max(w.list.count - 8 * i, 0), 8);
    eight[i] = absent == 8 ? 0 : Transposed(eight[i] << (8 * absent) >> (8 * absent));
  }
}

/// Fills the list.
template <PageType kType, int kDim>
__device__ void ListPages(Work<kType, kDim>& w, const Selection& selection) {
  // No row of the group selects a page from here on.
  const int pages = static_cast<int>(w.a.rows.position[w.group.begin] / kPromptGroupRows + 1) *
                    (kPromptGroupRows / kPageTokens);
  const int window = w.Zeros();  // a byte of the ring for each page
  for (int first = 0; first < pages; first += window) {
    Unite(w, selection, reinterpret_cast<unsigned*>(w.ring), first, min(window, pages - first));
  }
  const bool open = Lane() < w.group.count && w.OpenTokens(min(Lane(), w.group.count - 1)) != 0;
  w.list.open = __ballot_sync(kFullWarp, open);
  if (Warp() == 0 && open) {
    const int at = w.list.selected + __popc(w.list.open & ((1u << Lane()) - 1));
    w.list.page[at] =
        static_cast<std::uint32_t>((w.a.rows.position[w.group.begin + Lane()] + 1) / kPageTokens);
    w.list.rows[at] = static_cast<unsigned char>(1u << Lane());
  }
  w.list.count = w.list.selected + __popc(w.list.open);
  __syncthreads();
  Locate(w);
  __syncthreads();
}

/// A stage's place in the ring, and how often, modulo two, the ring was gone around before it.
struct Cursor {
  int slot = 0, parity = 0;
  __device__ __forceinline__ void Advance(int stages) {
    if (++slot == stages) slot = 0, parity ^= 1;
  }
};

/// Starts to copy a page to a place in this warp's part of a stage. What follows its first `tokens`
/// tokens becomes zeros.
template <PageType kType, int kDim>
__device__ __forceinline__ void StartPage(const Work<kType, kDim>& w, std::uint32_t page,
                                          unsigned char* to, int tokens) {
  using W = Work<kType, kDim>;
  constexpr int kPerRow = W::kRowBytes / 16, kPerSide = W::kSideBytes / 16;
  constexpr int kLanes = Min(kPerSide, 32);  // for a side at a time
  const int lane = w.lane() % kLanes;
  const unsigned char* const key = w.a.kv.data + std::int64_t{page} * W::kSideBytes + lane * 16;
  const std::int64_t to_value = std::int64_t{w.a.kv.kv_heads} * kPagesPerBlock * W::kSideBytes;
#pragma unroll
  for (int pass = 0; pass < kLanes / 16; ++pass) {
    const int side = kLanes == 32 ? pass : w.lane() / kLanes;
    const unsigned char* const from = key + (side == 0 ? 0 : to_value);
#pragma unroll
    for (int step = 0; step < kPerSide / kLanes; ++step) {
      const int token = (step * kLanes + lane) / kPerRow,
                byte = (step * kLanes + lane) % kPerRow * 16;
      const int turn = side == 0 ? TurnOfKey(token) : ValueTurn(w.warp, token);
      CopyToShared16(to + side * W::kSideBytes + TileByte<W::kRowBytes>(token, byte, turn),
                     from + step * kLanes * 16, token < tokens);
    }
  }
}

/// Asks for the gates of this warp's row, which its output needs, into the second-level cache.
template <PageType kType, int kDim>
__device__ __forceinline__ void PrefetchGates(const Work<kType, kDim>& w) {
  constexpr int kLineFloats = 32, kLines = kDim / kLineFloats;  // of a head
  const int heads = w.a.query_heads / w.a.kv.kv_heads;
  for (int i = w.lane(); i < heads * kLines; i += 32) {
    const int head = w.kv_head * heads + i / kLines;
    PrefetchToL2(PlaceOf(w.a, w.RowIndex(), head, kDim).gate + i % kLines * kLineFloats);
  }
}

/// Starts to copy this warp's pages of a stage to their places.
template <PageType kType, int kDim>
__device__ __forceinline__ void StartStage(const Work<kType, kDim>& w, int stage, int slot) {
  using W = Work<kType, kDim>;
  const int first = stage * W::kStagePages + w.warp;
  unsigned char* const to = w.ring + (slot * W::kStagePages + w.warp) * W::kPageBytes;
  if ((stage + 1) * W::kStagePages <= w.list.selected) {
    std::uint32_t page[W::kPagesPerWarp];
#pragma unroll
    for (int i = 0; i < W::kPagesPerWarp; ++i) page[i] = w.list.page[first + i * kWarps];
#pragma unroll
    for (int i = 0; i < W::kPagesPerWarp; ++i) {
      StartPage(w, page[i], to + i * kWarps * W::kPageBytes, kPageTokens);
    }
  } else {
    PrefetchGates(w);  // with the last pages, so that they are there when those are done with
    for (int i = 0; i < W::kPagesPerWarp; ++i) {
      const int index = first + i * kWarps;
      if (index >= w.list.count) break;
      const int open = index - w.list.selected;
      const int tokens =
          open < 0 ? kPageTokens : w.OpenTokens(static_cast<int>(__fns(w.list.open, 0, open + 1)));
      StartPage(w, w.list.page[index], to + i * kWarps * W::kPageBytes, tokens);
    }
  }
  w.Full(slot).ArriveAfterCopies();
}

/// Bit i: this warp's row attends to page i of the stage.
template <PageType kType, int kDim>
__device__ __forceinline__ unsigned OwnPages(const Work<kType, kDim>& w, int stage) {
  constexpr int kEights = Work<kType, kDim>::kPagesPerWarp;
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    own |= static_cast<unsigned>(w.list.rows[(stage * kEights + i) * 8 + w.warp]) << 8 * i;
  }
  return own;
}

}  // namespace kv8::cuda
