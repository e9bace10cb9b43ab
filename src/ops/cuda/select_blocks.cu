// Index scores on matrix units, then an exact radix selection. Contract: select_blocks.h.
#include "ops/cuda/select_blocks.h"

#include "ops/cuda/common.cuh"
#include "ops/cuda/mma.cuh"

namespace kv8::cuda {
namespace {

constexpr int kMaxHeads = 4;
constexpr int kKeysPerPage = 16;  // a key for every 4 tokens

/// Blocks of which a row sees all tokens. They are counted in 32 bits, and so are tokens: a
/// division in 64 bits takes as long as a read of memory.
__device__ __forceinline__ int CompleteBlocks(const SelectBlocksArgs& a, int row) {
  return (static_cast<int>(a.rows.position[row]) + 1) / a.selection_block_tokens;
}

// ---- scores -----------------------------------------------------------------------------------

constexpr int kScoreWarps = 4;
constexpr int kTilesAtOnce = 2;  // 8 keys each; the thread blocks at once keep enough under way
static_assert(kScoreKeyStep == kScoreWarps * kTilesAtOnce * 8);
constexpr float kLowPart = 2048.0f;

/// A row's index heads as FP16, relative to a power of two near each head's largest magnitude.
template <int kDim>
struct IndexQuery {
  static constexpr int kPieces = kDim / 32;  // 16 bytes: 8 values, two steps of 4

  /// Row h: head h, upper part; row h + 4: its lower part. The padding keeps rows off one bank.
  std::uint16_t parts[2 * kMaxHeads][kDim + 8];
  float scale[kMaxHeads];

  /// By warp `head`; zeros past the last head.
  __device__ void Stage(const float* query, int heads, int head) {
    constexpr int kPerLane = kDim / 32;
    float q[kPerLane];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      q[i] = head < heads ? query[head * kDim + kPerLane * Lane() + i] : 0.0f;
      largest = fmaxf(largest, fabsf(q[i]));
    }
    // The power of two at or below the largest magnitude: dividing by it is exact. Its reciprocal
    // is finite for exponent fields 1 to 253, which the clamp keeps to.
    const int field = min(max(static_cast<int>(Bits(WarpMax(largest)) >> 23), 1), 253);
    const float inverse = __uint_as_float(static_cast<unsigned>(254 - field) << 23);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const float x = q[i] * inverse;
      const __half high = __float2half_rn(x);
      const __half low = __float2half_rn((x - __half2float(high)) * kLowPart);
      parts[head][kPerLane * Lane() + i] = __half_as_ushort(high);
      parts[head + kMaxHeads][kPerLane * Lane() + i] = __half_as_ushort(low);
    }
    if (Lane() == 0) scale[head] = __uint_as_float(static_cast<unsigned>(field) << 23);
  }

  /// Fragments of step j: row g of the product is head g, upper part, row g + 8 its lower part;
  /// rows 4 to 7 and 12 to 15 are zeros.
  __device__ void Read(unsigned (&fragment)[4], int j) const {
    const int g = Lane() / 4, t = Lane() % 4;
    const int d = (4 * (j / 2) + t) * 8 + 4 * (j % 2);
    const bool valid = g < kMaxHeads;
    const int row = valid ? g : 0;
    const uint2 high = *reinterpret_cast<const uint2*>(&parts[row][d]);
    const uint2 low = *reinterpret_cast<const uint2*>(&parts[row + kMaxHeads][d]);
    fragment[0] = valid ? high.x : 0u, fragment[1] = valid ? low.x : 0u;
    fragment[2] = valid ? high.y : 0u, fragment[3] = valid ? low.y : 0u;
  }
};

/// max(0, x), NaN staying NaN.
__device__ __forceinline__ float Relu(float x) {
  return x < 0.0f ? 0.0f : x;
}

/// Score of a tile's key `key` (0 or 1 of the lane's pair), in every lane of heads 0 to 3.
__device__ __forceinline__ float HeadSum(float high, float low, float scale) {
  float x = Relu(scale * fmaf(low, 1.0f / kLowPart, high));
  x += __shfl_xor_sync(kFullWarp, x, 4);
  return x + __shfl_xor_sync(kFullWarp, x, 8);
}

/// Keys of several tiles as operands: lane 4 g + t has pieces 4 j + t of key g; zeros past the end.
template <int kDim>
struct KeyTiles {
  static constexpr int kPieces = IndexQuery<kDim>::kPieces;
  uint4 pieces[kTilesAtOnce][kPieces];

  __device__ __forceinline__ void Load(const uint4* const* pages, int begin, int count) {
    const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int n = 0; n < kTilesAtOnce; ++n) {
      const int key = begin + 8 * n + g;
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        pieces[n][j] = make_uint4(0, 0, 0, 0);
        if (key >= count) continue;
        pieces[n][j] = pages[key / kKeysPerPage][key % kKeysPerPage * (kDim / 8) + 4 * j + t];
      }
    }
  }
  /// d = a row's heads times the keys of tile n.
  __device__ __forceinline__ void Multiply(const unsigned (&fragments)[2 * kPieces][4], int n,
                                           float (&d)[4]) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      MmaFp16(d, fragments[2 * j], pieces[n][j].x, pieces[n][j].y);
      MmaFp16(d, fragments[2 * j + 1], pieces[n][j].z, pieces[n][j].w);
    }
  }
};

/// Scores of this warp's tiles of `count` keys, which lie in `pages`.
template <int kDim>
__device__ __forceinline__ void ScoreTiles(const IndexQuery<kDim>& query, const uint4* const* pages,
                                           int count, float* scores) {
  const int g = Lane() / 4, t = Lane() % 4;
  unsigned fragments[2 * IndexQuery<kDim>::kPieces][4];
#pragma unroll
  for (int j = 0; j < 2 * IndexQuery<kDim>::kPieces; ++j) query.Read(fragments[j], j);
  const float scale = query.scale[g % kMaxHeads];
  for (int begin = Warp() * kTilesAtOnce * 8; begin < count;
       begin += kScoreWarps * kTilesAtOnce * 8) {
    KeyTiles<kDim> tiles;
    tiles.Load(pages, begin, count);
#pragma unroll
    for (int n = 0; n < kTilesAtOnce; ++n) {
      float d[4] = {};
      tiles.Multiply(fragments, n, d);
      const float even = HeadSum(d[0], d[2], scale);
      const float odd = HeadSum(d[1], d[3], scale);
      const int key = begin + 8 * n + 2 * t;
      if (g == 0 && key < count) scores[key] = even;
      if (g == 0 && key + 1 < count) scores[key + 1] = odd;
    }
  }
}

template <int kDim>
__device__ void Score(const SelectBlocksArgs& a) {
  __shared__ const uint4* pages[kMaxScoreKeys / kKeysPerPage];
  __shared__ __align__(16) IndexQuery<kDim> query;
  const int row = static_cast<int>(blockIdx.y);
  const int sequence = a.rows.sequence[row];
  if (sequence < 0) return;
  const int complete = CompleteBlocks(a, row);
  const int first = static_cast<int>(blockIdx.x) * a.keys_per_thread_block;
  if (complete <= a.budget_selection_blocks || first >= complete) return;
  const int count = min(a.keys_per_thread_block, complete - first);
  for (int i = static_cast<int>(threadIdx.x); i * kKeysPerPage < count; i += 32 * kScoreWarps) {
    const std::int64_t page = a.tables.pages[sequence * a.tables.stride + first / kKeysPerPage + i];
    pages[i] = reinterpret_cast<const uint4*>(a.index.data + page * kKeysPerPage * kDim);
  }
  query.Stage(a.index_query + static_cast<std::int64_t>(row) * a.index_heads * kDim, a.index_heads,
              Warp());
  __syncthreads();
  ScoreTiles<kDim>(query, pages, count,
                   a.scores + static_cast<std::int64_t>(row) * a.max_selection_blocks + first);
}

// ---- choice -----------------------------------------------------------------------------------

constexpr int kChoiceThreads = 1024;
constexpr int kChoiceWarps = kChoiceThreads / 32;
static_assert(kChoiceWarps == 32);  // one lane each
constexpr int kBins = 2048;
// Copies of the counters for the first digit, which most scores share, and would queue. Few have
// the prefix that later digits ask for.
constexpr int kFirstCopies = 4;
constexpr int kLaterCopies = 1;
constexpr int kEach = 8;  // neighbouring scores that a thread takes at a time
constexpr int kAtOnce = kEach * kChoiceThreads;

/// Ranks like the score: non-negative floats order like their bits; NaN ranks lowest, as 0.
__device__ __forceinline__ unsigned Rank(float score) {
  return isnan(score) ? 0u : (Bits(score) & 0x7FFFFFFFu) + 1u;
}

struct ChoiceShared {
  unsigned bins[kFirstCopies][kBins];
  unsigned warp_sums[kChoiceWarps];
  unsigned bin, above, within;  // result of FindBin
};

/// Inclusive sum over the thread block of up to two 16-bit counts in one word; *total gets the
/// sum over all threads.
__device__ unsigned ThreadBlockScan(unsigned x, ChoiceShared& s, unsigned* total) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const unsigned other = __shfl_up_sync(kFullWarp, x, offset);
    if (Lane() >= offset) x += other;
  }
  __syncthreads();  // the last use of warp_sums is over
  if (Lane() == 31) s.warp_sums[Warp()] = x;
  __syncthreads();
  unsigned sums = s.warp_sums[Lane()];
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const unsigned other = __shfl_up_sync(kFullWarp, sums, offset);
    if (Lane() >= offset) sums += other;
  }
  *total = __shfl_sync(kFullWarp, sums, 31);
  const unsigned before = __shfl_sync(kFullWarp, sums, max(Warp() - 1, 0));
  return x + (Warp() > 0 ? before : 0u);
}

/// Ranks of the scores [first, first + kEach), 0 past the end. Rows of scores are 16-byte aligned
/// and padded to 4, so whole vectors may be read.
__device__ __forceinline__ void ReadRanks(unsigned (&ranks)[kEach], const float* scores, int first,
                                          int count) {
#pragma unroll
  for (int i = 0; i < kEach; i += 4) {
    const bool any = first + i < count;
    const float4 v = any ? *reinterpret_cast<const float4*>(scores + first + i)
                         : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      ranks[i + k] = first + i + k < count ? Rank(values[k]) : 0u;
    }
  }
}

/// Ranks of scores [base + kEach * thread, ...): `held` has those of base 0, read once for all
/// passes.
__device__ __forceinline__ void RanksAt(unsigned (&ranks)[kEach], const unsigned (&held)[kEach],
                                        const float* scores, int base, int count) {
  if (base == 0) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) ranks[i] = held[i];
  } else {
    ReadRanks(ranks, scores, base + kEach * static_cast<int>(threadIdx.x), count);
  }
}

template <int kCopies>
__device__ void ClearBins(ChoiceShared& s) {
  for (int i = static_cast<int>(threadIdx.x); i < kBins * kCopies; i += kChoiceThreads) {
    (&s.bins[0][0])[i] = 0;
  }
}

/// Counts in clear bins the ranks whose bits above `shift + bits` equal `prefix` by their next
/// `bits` bits. Zero scores, of which relu makes many, are counted per warp before they meet the
/// counter.
template <int kCopies>
__device__ void CountRanks(const float* scores, const unsigned (&held)[kEach], int count,
                           unsigned prefix, int shift, int bits, ChoiceShared& s) {
  __syncthreads();  // the bins are clear
  unsigned* const counters = s.bins[Lane() % kCopies];
  const unsigned mask = (1u << bits) - 1u;
  unsigned zeros = 0;
  for (int base = 0; base < count; base += kAtOnce) {
    const int first = base + kEach * static_cast<int>(threadIdx.x);
    unsigned ranks[kEach];
    RanksAt(ranks, held, scores, base, count);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i >= count || ranks[i] >> (shift + bits) != prefix) continue;
      if (ranks[i] == 1u) {
        ++zeros;
      } else {
        atomicAdd(&counters[(ranks[i] >> shift) & mask], 1u);
      }
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    zeros += __shfl_xor_sync(kFullWarp, zeros, offset);
  }
  if (Lane() == 0 && zeros != 0u) atomicAdd(&counters[(1u >> shift) & mask], zeros);
  __syncthreads();
}

/// The bin in which the `wanted`-th highest rank lies, how many ranks lie in bins above it, and how
/// many in it.
template <int kCopies>
__device__ void FindBin(unsigned wanted, ChoiceShared& s) {
  constexpr int kOwn = kBins / kChoiceThreads;
  const int top = kBins - 1 - static_cast<int>(threadIdx.x) * kOwn;  // highest bins first
  const auto ranks_in = [&](int bin) {
    unsigned sum = 0;
#pragma unroll
    for (int copy = 0; copy < kCopies; ++copy) sum += s.bins[copy][bin];
    return sum;
  };
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) own += ranks_in(top - i);
  // Counts reach 2^18 and more: a scan of whole words.
  unsigned total;
  unsigned above = ThreadBlockScan(own, s, &total) - own;
  if (above < wanted && above + own >= wanted) {
    int bin = top;
    while (above + ranks_in(bin) < wanted) above += ranks_in(bin--);
    s.bin = static_cast<unsigned>(bin);
    s.above = above;
    s.within = ranks_in(bin);
  }
  __syncthreads();
}

/// Where the choice ends: all blocks above `rank` are chosen, and the first `ties` at it. Until the
/// last digit is found `rank` has the digits so far, and `ties` counts blocks that begin with them.
struct Edge {
  unsigned rank, ties;
};

/// Finds the edge's next digit, bits [kShift, kShift + kBits) of ranks. False when no further digit
/// is needed: all blocks that begin with these digits are chosen.
template <int kCopies, int kShift, int kBits>
__device__ bool Narrow(const float* scores, const unsigned (&held)[kEach], int count, Edge& edge,
                       ChoiceShared& s) {
  static_assert(1 << kBits <= kBins);
  ClearBins<kCopies>(s);
  CountRanks<kCopies>(scores, held, count, edge.rank, kShift, kBits, s);
  FindBin<kCopies>(edge.ties, s);
  edge.rank = edge.rank << kBits | s.bin;
  edge.ties -= s.above;
  const bool whole = kShift != 0 && s.within == edge.ties && edge.rank != 0u;
  __syncthreads();  // what FindBin found is read
  if (whole) edge = {(edge.rank << kShift) - 1u, 0};
  return !whole;
}

/// Writes the ascending list of the chosen blocks.
__device__ void WriteChoice(const float* scores, const unsigned (&held)[kEach], int count,
                            const Edge& edge, std::int32_t* out, ChoiceShared& s) {
  unsigned above_before = 0, ties_before = 0;
  for (int base = 0; base < count; base += kAtOnce) {
    const int first = base + kEach * static_cast<int>(threadIdx.x);
    unsigned ranks[kEach];
    RanksAt(ranks, held, scores, base, count);
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i < count)
        own += ranks[i] > edge.rank ? 0x10000u : ranks[i] == edge.rank ? 1u : 0u;
    }
    unsigned total;
    const unsigned before = ThreadBlockScan(own, s, &total) - own;
    unsigned above_here = above_before + (before >> 16);
    unsigned ties_here = ties_before + (before & 0xFFFFu);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool above = first + i < count && ranks[i] > edge.rank;
      const bool tie = first + i < count && ranks[i] == edge.rank;
      if (above || (tie && ties_here < edge.ties)) {
        out[above_here + min(ties_here, edge.ties)] = first + i;
      }
      above_here += above ? 1u : 0u;
      ties_here += tie ? 1u : 0u;
    }
    above_before += total >> 16;
    ties_before += total & 0xFFFFu;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kScoreWarps, kScoreThreadBlocks)
    kv8_index_scores_64(const SelectBlocksArgs args) {
  AfterEarlierKernels();
  Score<64>(args);
}
extern "C" __global__ void __launch_bounds__(32 * kScoreWarps, kScoreThreadBlocks)
    kv8_index_scores_128(const SelectBlocksArgs args) {
  AfterEarlierKernels();
  Score<128>(args);
}

extern "C" __global__ void __launch_bounds__(kChoiceThreads)
    kv8_choose_blocks(const SelectBlocksArgs a) {
  AfterEarlierKernels();
  __shared__ ChoiceShared s;
  const int row = static_cast<int>(blockIdx.x);
  if (a.rows.sequence[row] < 0) return;
  const int complete = CompleteBlocks(a, row);
  std::int32_t* const out = a.blocks + static_cast<std::int64_t>(row) * a.budget_selection_blocks;
  const int chosen = min(complete, a.budget_selection_blocks);
  if (threadIdx.x == 0) a.counts[row] = chosen;
  if (complete <= a.budget_selection_blocks) {
    for (int i = static_cast<int>(threadIdx.x); i < complete; i += kChoiceThreads) out[i] = i;
    return;
  }
  const float* const scores = a.scores + static_cast<std::int64_t>(row) * a.max_selection_blocks;
  unsigned held[kEach];
  ReadRanks(held, scores, kEach * static_cast<int>(threadIdx.x), complete);
  Edge edge{0, static_cast<unsigned>(chosen)};
  if (Narrow<kFirstCopies, 20, 11>(scores, held, complete, edge, s) &&  // ranks have 31 bits
      Narrow<kLaterCopies, 10, 10>(scores, held, complete, edge, s)) {
    Narrow<kLaterCopies, 0, 10>(scores, held, complete, edge, s);
  }
  WriteChoice(scores, held, complete, edge, out, s);
}

}  // namespace kv8::cuda
