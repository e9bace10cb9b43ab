// The selection blocks of a group of prompt rows: which they are, whose, and their way through
// shared memory.
// Why so: docs/kernels/cuda-prompt-attention.md.
#pragma once

#include "ops/cuda/attention.cuh"
#include "ops/cuda/prompt_attention.h"

namespace kv8::cuda {

inline constexpr int kWarps = kPromptGroupRows;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kBlocksPerPage = kPageTokens / kSelectionBlockTokens;

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

/// The turn of a token's V: the tokens of two blocks are read together, and meet no other's banks
/// where one of the blocks has an even place and one an odd one.
__device__ __forceinline__ int ValueTurn(int block, int token) {
  return block % 2 * kSelectionBlockTokens + token;
}

/// Where in the ring a block is, and what of it counts.
struct BlockPlace {
  enum Kind : unsigned { kZeros, kOpen, kWhole };
  static constexpr unsigned kKinds = 3;  // offsets are multiples of 16

  unsigned word;

  __device__ BlockPlace(int offset, Kind kind) : word(static_cast<unsigned>(offset) | kind) {}
  __device__ __forceinline__ int Offset() const { return static_cast<int>(word & ~kKinds); }
  /// Tokens that count, where so many of the row's open block do.
  __device__ __forceinline__ int Tokens(int open) const {
    const unsigned kind = word & kKinds;
    return kind == kWhole ? kSelectionBlockTokens : (kind == kOpen ? open : 0);
  }
};

/// Blocks of a group: those that any row selects, ascending, then each row's open block.
struct BlockList {
  std::uint32_t* block;  // in the sequence; after Locate where its K is in the pool, in sides
  // A byte for each block, bit r: row r attends to it. After Locate a byte for each row of each
  // eight blocks, bit i: it attends to the i-th of them.
  unsigned char* rows;
  int selected, count;
  unsigned open;  // bit r: row r has an open block
};

/// A thread block's work and its shared memory.
template <KvElement kType, int kDim>
struct Work {
  static constexpr int kRowBytes = kDim * kElementBytes<kType>;
  static constexpr int kSideBytes = kSelectionBlockTokens * kRowBytes;
  static constexpr int kBlockBytes = 2 * kSideBytes;
  static constexpr int kStageBlocks = PromptStageBlocks(kDim, kType);
  static constexpr int kBlocksPerWarp = kStageBlocks / kWarps;  // that a warp copies of a stage

  const SparseAttentionArgs& a;
  const RowGroup group;
  const int warp, kv_head, sequence, stages;
  const KeptLane lane;
  unsigned char* const ring;  // [stage][block][K|V][token]; before, the map of selected blocks
  uint4* const scratch;       // of each warp: fragments of queries, then output
  unsigned char* const barriers;
  BlockList list;
  int* const sums;           // [warps]
  BlockPlace* const queues;  // [warps][kPromptQueueBlocks]

  __device__ Work(const PromptAttentionArgs& args, unsigned char* shared)
      : a(args.attention),
        group{args.groups[blockIdx.x].begin - args.first_row, args.groups[blockIdx.x].count},
        warp(__shfl_sync(kFullWarp, Warp(), 0)),  // the compiler sees that lanes agree
        kv_head(static_cast<int>(blockIdx.y)),
        sequence(a.rows.sequence[group.begin]),
        stages(args.stages),
        ring(shared),
        scratch(reinterpret_cast<uint4*>(shared + Zeros() + kBlockBytes)),
        barriers(shared + Zeros() + kBlockBytes + kWarps * kPromptScratchBytes),
        list{reinterpret_cast<std::uint32_t*>(barriers + 16 * kMaxPromptStages),
             reinterpret_cast<unsigned char*>(list.block +
                                              PromptListBlocks(a.budget_selection_blocks)) +
                 4 * kWarps * (1 + kPromptQueueBlocks),
             0, 0, 0},
        sums(reinterpret_cast<int*>(list.block + PromptListBlocks(a.budget_selection_blocks))),
        queues(reinterpret_cast<BlockPlace*>(sums + kWarps)) {}

  /// Where, behind the ring, a block of zeros is.
  __device__ int Zeros() const { return stages * kStageBlocks * kBlockBytes; }

  /// End when a stage of the ring is there, and when all rows are done with it.
  __device__ Barrier Full(int slot) const {
    return {SharedAddress(barriers) + static_cast<unsigned>(slot) * 16};
  }
  __device__ Barrier Empty(int slot) const { return {Full(slot).address + 8}; }

  /// Whether this warp has a row.
  __device__ bool HasRow() const { return warp < group.count; }
  /// Its row, or another where it has none.
  __device__ int RowIndex() const { return group.begin + min(warp, group.count - 1); }
  /// Tokens of a row's open block.
  __device__ int OpenTokens(int row) const {
    return static_cast<int>((a.rows.position[group.begin + row] + 1) % kSelectionBlockTokens);
  }
};

/// This warp's row's selection: what is read before there is anything to do with it.
struct Selection {
  static constexpr int kHeld = 16;

  const std::int32_t* blocks;
  int count;
  int held[kHeld];  // its entries 32 i + lane; anything from `count` on

  template <KvElement kType, int kDim>
  __device__ explicit Selection(const Work<kType, kDim>& w)
      : blocks(w.a.blocks + static_cast<std::int64_t>(w.RowIndex()) * w.a.budget_selection_blocks),
        count(w.HasRow() ? w.a.counts[w.RowIndex()] : 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      held[i] = blocks[min(32 * i + Lane(), w.a.budget_selection_blocks - 1)];
  }

  /// Calls mark(block) for each of this lane's.
  template <class Mark>
  __device__ void ForEach(Mark&& mark) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (32 * i + Lane() < count) mark(held[i]);
    }
    for (int i = 32 * kHeld + Lane(); i < count; i += 32) mark(blocks[i]);
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

/// Puts the selected ones of `blocks` blocks from `first` on at the end of the list. `map` has a
/// byte for each, in which bit r is row r's.
template <KvElement kType, int kDim>
__device__ void Unite(Work<kType, kDim>& w, const Selection& selection, unsigned* map, int first,
                      int blocks) {
  const int words = (blocks + 3) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) map[i] = 0;
  __syncthreads();
  selection.ForEach([&](int selected) {
    const int block = selected - first;
    if (block >= 0 && block < blocks) atomicOr(map + block / 4, 1u << (block % 4 * 8 + w.warp));
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
      w.list.block[rank] = static_cast<std::uint32_t>(first + 4 * (i + Lane()) + byte);
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

/// Says where in the pool the list's blocks are, and of each eight which are whose.
template <KvElement kType, int kDim>
__device__ void Locate(const Work<kType, kDim>& w) {
  const std::int32_t* const table = w.a.tables.pages + w.sequence * w.a.tables.stride;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < w.list.count; i += kThreads) {
    const std::uint32_t block = w.list.block[i];
    const auto page = static_cast<std::uint32_t>(table[block / kBlocksPerPage]);
    w.list.block[i] = (page * 2 * static_cast<std::uint32_t>(w.a.kv.kv_heads) +
                       static_cast<std::uint32_t>(w.kv_head)) *
                          kBlocksPerPage +
                      block % kBlocksPerPage;
  }
  auto* const eight = reinterpret_cast<std::uint64_t*>(w.list.rows);
  for (int i = static_cast<int>(threadIdx.x); i < PromptListBlocks(w.a.budget_selection_blocks) / 8;
       i += kThreads) {
    const int absent = 8 - min(max(w.list.count - 8 * i, 0), 8);
    eight[i] = absent == 8 ? 0 : Transposed(eight[i] << (8 * absent) >> (8 * absent));
  }
}

/// Fills the list.
template <KvElement kType, int kDim>
__device__ void ListBlocks(Work<kType, kDim>& w, const Selection& selection) {
  // No row of the group selects a block from here on.
  const int blocks = static_cast<int>(w.a.rows.position[w.group.begin] / kPromptGroupRows + 1) *
                     (kPromptGroupRows / kSelectionBlockTokens);
  const int window = w.Zeros();  // a byte of the ring for each block
  for (int first = 0; first < blocks; first += window) {
    Unite(w, selection, reinterpret_cast<unsigned*>(w.ring), first, min(window, blocks - first));
  }
  const bool open = Lane() < w.group.count && w.OpenTokens(min(Lane(), w.group.count - 1)) != 0;
  w.list.open = __ballot_sync(kFullWarp, open);
  if (Warp() == 0 && open) {
    const int at = w.list.selected + __popc(w.list.open & ((1u << Lane()) - 1));
    w.list.block[at] = static_cast<std::uint32_t>((w.a.rows.position[w.group.begin + Lane()] + 1) /
                                                  kSelectionBlockTokens);
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

/// Starts to copy a block to a place in this warp's part of a stage. What follows its first
/// `tokens` tokens becomes zeros.
template <KvElement kType, int kDim>
__device__ __forceinline__ void StartBlock(const Work<kType, kDim>& w, std::uint32_t block,
                                           unsigned char* to, int tokens) {
  using W = Work<kType, kDim>;
  constexpr int kPerRow = W::kRowBytes / 16, kPerSide = W::kSideBytes / 16;
  constexpr int kLanes = Min(kPerSide, 32);  // for a side at a time
  const int lane = w.lane() % kLanes;
  const unsigned char* const key = w.a.kv.data + std::int64_t{block} * W::kSideBytes + lane * 16;
  const std::int64_t to_value = std::int64_t{w.a.kv.kv_heads} * kBlocksPerPage * W::kSideBytes;
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
template <KvElement kType, int kDim>
__device__ __forceinline__ void PrefetchGates(const Work<kType, kDim>& w) {
  constexpr int kLineFloats = 32, kLines = kDim / kLineFloats;  // of a head
  const int heads = w.a.query_heads / w.a.kv.kv_heads;
  for (int i = w.lane(); i < heads * kLines; i += 32) {
    const int head = w.kv_head * heads + i / kLines;
    PrefetchToL2(PlaceOf(w.a, w.RowIndex(), head, kDim).gate + i % kLines * kLineFloats);
  }
}

/// Starts to copy this warp's blocks of a stage to their places.
template <KvElement kType, int kDim>
__device__ __forceinline__ void StartStage(const Work<kType, kDim>& w, int stage, int slot) {
  using W = Work<kType, kDim>;
  const int first = stage * W::kStageBlocks + w.warp;
  unsigned char* const to = w.ring + (slot * W::kStageBlocks + w.warp) * W::kBlockBytes;
  if ((stage + 1) * W::kStageBlocks <= w.list.selected) {
    std::uint32_t block[W::kBlocksPerWarp];
#pragma unroll
    for (int i = 0; i < W::kBlocksPerWarp; ++i) block[i] = w.list.block[first + i * kWarps];
#pragma unroll
    for (int i = 0; i < W::kBlocksPerWarp; ++i) {
      StartBlock(w, block[i], to + i * kWarps * W::kBlockBytes, kSelectionBlockTokens);
    }
  } else {
    PrefetchGates(w);  // with the last blocks, so that they are there when those are done with
    for (int i = 0; i < W::kBlocksPerWarp; ++i) {
      const int index = first + i * kWarps;
      if (index >= w.list.count) break;
      const int open = index - w.list.selected;
      const int tokens = open < 0 ? kSelectionBlockTokens
                                  : w.OpenTokens(static_cast<int>(__fns(w.list.open, 0, open + 1)));
      StartBlock(w, w.list.block[index], to + i * kWarps * W::kBlockBytes, tokens);
    }
  }
  w.Full(slot).ArriveAfterCopies();
}

/// Bit i: this warp's row attends to block i of the stage.
template <KvElement kType, int kDim>
__device__ __forceinline__ unsigned OwnBlocks(const Work<kType, kDim>& w, int stage) {
  constexpr int kEights = Work<kType, kDim>::kBlocksPerWarp;
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    own |= static_cast<unsigned>(w.list.rows[(stage * kEights + i) * 8 + w.warp]) << 8 * i;
  }
  return own;
}

}  // namespace kv8::cuda
