// Sparse attention over chosen selection blocks: one thread block per row, K/V head and split, of
// two pairs of warps that each go through their own tokens. Contract: sparse_attention.h; why it
// has this shape: docs/kernels/cuda-sparse-attention.md.
#include "ops/cuda/sparse_attention.h"

#include "ops/cuda/attention.cuh"

namespace kv8::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
#if __CUDA_ARCH__ >= 800
constexpr bool kRunAhead = true;
#else
constexpr bool kRunAhead = false;
#endif

/// Two warps work together on 32 tokens, a unit of eight blocks. Each scores half of the tokens
/// over all dimensions and sums half of the dimensions over all tokens. In a product with weights
/// lane 4 g + t keeps to blocks t and t + 4, in a product with keys to tokens of blocks g / 2 (+
/// 4): score tile u, column 2 t + c is token 2 u + c of block t, so that scores become weights in
/// their lane.
constexpr int kUnitBlocks = 8;
constexpr int kPairs = kWarps / 2;
__device__ __forceinline__ int Pair() {
  return Warp() / 2;
}
__device__ __forceinline__ int Side() {
  return Warp() % 2;
}
template <KvElement kType, int kDim>
struct Shared {
  static constexpr int kRingBytes = AttentionRingBytes(kDim, kType, kRunAhead);

  /// Fragments of the queries as FP16, [step of 16 dimensions][lane].
  uint4 query[kDim / 16][32];
  uint4 weights[kWarps][32];                 // fragments, for the other warp of a pair
  std::int64_t blocks[kBlocksPerSplit + 1];  // offset of a block's first K vector in the pool
  float query_scale[16];
  float maxima[kWarps][16], sums[kWarps][16];
  float factors[16];
  int last;
  alignas(16) unsigned char ring[kRingBytes * kThreads];

  /// After the loop the ring holds the output, [head][dimension], spread over the banks.
  static constexpr int kOutStride = kDim + kDim / 8 + 16;
  static_assert(16 * kOutStride * 4 <= kRingBytes * kThreads);
  __device__ float* Out(int head, int d) {
    return reinterpret_cast<float*>(ring) + head * kOutStride + d + d / 32 * 4;
  }
  /// This warp's part of the ring.
  __device__ unsigned char* WarpRing() { return ring + Warp() * (32 * kRingBytes); }
};

/// The turn of V, of whose blocks four are read together.
constexpr int TurnOfValue(int block) {
  return block % 4 * 2;
}

/// V as an operand, kWidth dimensions of it: lane 4 g + t takes pieces g of the four tokens of
/// block t; element e of piece p is column g of output tile (p, e), which is dimension (8 p + g) *
/// kPerPiece + e.
template <KvElement kType, int kWidth>
struct ValuePieces {
  static constexpr int kRowBytes = kWidth * kElementBytes<kType>;
  static constexpr int kPieceBytes = Min(kRowBytes / 8, 16);
  static constexpr int kPieces = kRowBytes / 8 / kPieceBytes;
  static constexpr int kPerPiece = kPieceBytes / kElementBytes<kType>;
  static constexpr int kWords = kPieceBytes / 4;

  __device__ __forceinline__ static void Read(unsigned (&words)[kWords],
                                              const unsigned char* from) {
    if constexpr (kWords == 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else if constexpr (kWords == 2) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      words[0] = v.x, words[1] = v.y;
    } else {
      static_assert(kWords == 1);
      words[0] = *reinterpret_cast<const unsigned*>(from);
    }
  }

  /// sums of piece p += weights . V, from that piece of a block's four tokens.
  __device__ __forceinline__ static void MultiplyPiece(
      float (&sums)[kWidth / 8][4], int p, const unsigned (&weights)[4],
      const unsigned (&token)[kSelectionBlockTokens][kWords]) {
#pragma unroll
    for (int e = 0; e < kPerPiece; ++e) {
      MmaFp16(sums[p * kPerPiece + e], weights, Join(token[0], token[1], e),
              Join(token[2], token[3], e));
    }
  }

 private:
  /// Element `e` of two tokens as FP16, the first in the low half.
  __device__ __forceinline__ static unsigned Join(const unsigned (&first)[kWords],
                                                  const unsigned (&second)[kWords], int e) {
    if constexpr (kType == KvElement::kFp16) {
      return __byte_perm(first[e / 2], second[e / 2], e % 2 ? 0x7632 : 0x5410);
    } else {
      // One permutation serves two elements.
      const unsigned two = __byte_perm(first[e / 4], second[e / 4], e % 4 < 2 ? 0x5140 : 0x7362);
      return e % 2 == 0 ? E4M3ToHalf2<false>(two) : E4M3ToHalf2<true>(two);
    }
  }
};

/// The part of a row that one thread block works on.
struct Split {
  int row, kv_head, index, count;  // index of count splits
  int blocks, tokens;
};

/// Row's share of split `index`, and the blocks' offsets to shared memory.
template <int kTokenBytes>
__device__ Split FindSplit(const SparseAttentionArgs& a, std::int64_t* offsets) {
  Split split{static_cast<int>(blockIdx.z),
              static_cast<int>(blockIdx.y),
              static_cast<int>(blockIdx.x),
              0,
              0,
              0};
  // Three loads at once, whether or not the row is padding.
  const int sequence = a.rows.sequence[split.row];
  const std::int64_t position = a.rows.position[split.row];
  const int listed = a.counts[split.row];
  if (sequence < 0) return split;
  const int tail = static_cast<int>((position + 1) % kSelectionBlockTokens);
  const int blocks = listed + (tail != 0 ? 1 : 0);
  split.count = (blocks + kBlocksPerSplit - 1) / kBlocksPerSplit;
  if (split.index >= split.count) return split;
  const int first = split.index * blocks / split.count;
  split.blocks = (split.index + 1) * blocks / split.count - first;
  split.tokens = split.blocks * kSelectionBlockTokens;
  if (tail != 0 && first + split.blocks == blocks) split.tokens -= kSelectionBlockTokens - tail;
  for (int i = static_cast<int>(threadIdx.x); i < split.blocks; i += kThreads) {
    const std::int64_t block =
        first + i < listed
            ? a.blocks[static_cast<std::int64_t>(split.row) * a.budget_selection_blocks + first + i]
            : (position + 1) / kSelectionBlockTokens;
    constexpr int kBlocksPerPage = kPageTokens / kSelectionBlockTokens;
    const int page = a.tables.pages[sequence * a.tables.stride + block / kBlocksPerPage];
    offsets[i] = KvOffset(a.kv.kv_heads, kTokenBytes, page, 0, split.kv_head,
                          static_cast<int>(block % kBlocksPerPage) * kSelectionBlockTokens);
  }
  return split;
}

/// Vectors of tokens side by side in shared memory, kRowBytes each, as a warp copies and reads
/// them. Neighbouring lanes copy neighbouring pieces, so a request covers whole lines of memory;
/// row 4 i + k is token k of block i.
template <int kRows, int kRowBytes, bool kValues>
struct Tile {
  static constexpr int kPerRow = kRowBytes / 16;
  static constexpr int kSteps = kRows * kPerRow / 32;
  static constexpr int kBytes = kRows * kRowBytes;

  /// Where byte `byte` of row `row` is.
  __device__ static int At(int row, int byte) {
    return TileByte<kRowBytes>(row, byte,
                               kValues ? TurnOfValue(row / kSelectionBlockTokens) : TurnOfKey(row));
  }

  /// Starts to copy all rows; block i's is block first_block + i of the split, whose first vector
  /// is at `begin` from the block's offset and `token_bytes` from the next. Rows past the end
  /// become zeros.
  __device__ static void Start(unsigned char* tile, const SparseAttentionArgs& a,
                               const Split& split, const std::int64_t* blocks, int first_block,
                               std::int64_t begin, int token_bytes) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int row = step * 32 / kPerRow + Lane() / kPerRow;
      const int piece = Lane() % kPerRow;
      const int block = first_block + row / kSelectionBlockTokens;
      const bool valid = block * kSelectionBlockTokens + row % kSelectionBlockTokens < split.tokens;
      const unsigned char* const from =
          a.kv.data + (block < split.blocks ? blocks[block] : 0) +
          (begin + row % kSelectionBlockTokens * token_bytes + 16 * piece);
      CopyToShared16(tile + At(row, 16 * piece), from, valid);
    }
    CommitCopies();
  }
};

/// K of the four blocks of a warp. As an operand a lane takes two tokens of block g / 2.
template <KvElement kType, int kDim>
struct Keys : KeyPieces<kType, kDim> {
  using Pieces = KeyPieces<kType, kDim>;
  using Rows = Tile<16, kDim * kElementBytes<kType>, false>;

  __device__ static void Start(const SparseAttentionArgs& a, const Split& split,
                               Shared<kType, kDim>& s, int unit) {
    Rows::Start(s.WarpRing(), a, split, s.blocks, kUnitBlocks * unit + 4 * Side(), 0,
                kDim * kElementBytes<kType>);
  }

  /// d[u] = q . K of score tile u. Two sums run side by side: one would wait for itself.
  __device__ static void Multiply(Shared<kType, kDim>& s, float (&d)[2][4]) {
    const int g = Lane() / 4, t = Lane() % 4;
    const unsigned char* const rows = s.WarpRing();
    float odd[2][4] = {};
#pragma unroll
    for (int j = 0; j < Pieces::kPieces; ++j) {
      uint4 pieces[2];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int row = g / 2 * 4 + 2 * u + g % 2;
        pieces[u] = *reinterpret_cast<const uint4*>(rows + Rows::At(row, 16 * (4 * j + t)));
      }
#pragma unroll
      for (int i = 0; i < Pieces::kStepsPerPiece; ++i) {
        const uint4 q = s.query[j * Pieces::kStepsPerPiece + i][Lane()];
        const unsigned query[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          const uint2 key = Pieces::Operand(pieces[u], i);
          MmaFp16(i % 2 == 0 ? d[u] : odd[u], query, key.x, key.y);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
      for (int c = 0; c < 4; ++c) d[u][c] += odd[u][c];
    }
  }
};

/// A warp's half of the dimensions of V of the unit's eight blocks. As an operand a lane takes
/// tokens of blocks t and t + 4.
template <KvElement kType, int kDim>
struct Values : ValuePieces<kType, kDim / 2> {
  static constexpr int kHalf = kDim / 2;
  using Pieces = ValuePieces<kType, kHalf>;
  using Rows = Tile<32, Pieces::kRowBytes, true>;
  static constexpr int kBegin = kRunAhead ? Keys<kType, kDim>::Rows::kBytes : 0;

  __device__ static void Start(const SparseAttentionArgs& a, const Split& split,
                               Shared<kType, kDim>& s, int unit) {
    const std::int64_t side_bytes =
        static_cast<std::int64_t>(a.kv.kv_heads) * kPageTokens * 2 * Pieces::kRowBytes;
    Rows::Start(s.WarpRing() + kBegin, a, split, s.blocks, kUnitBlocks * unit,
                side_bytes + Side() * Pieces::kRowBytes, 2 * Pieces::kRowBytes);
  }

  /// sums += weights . V of the blocks 4 k on.
  __device__ static void Multiply(Shared<kType, kDim>& s, int k, const uint4& weight,
                                  float (&sums)[kHalf / 8][4]) {
    const unsigned weights[4] = {weight.x, weight.y, weight.z, weight.w};
    const int g = Lane() / 4, t = Lane() % 4;
    const unsigned char* const rows = s.WarpRing() + kBegin;
#pragma unroll
    for (int p = 0; p < Pieces::kPieces; ++p) {
      unsigned token[kSelectionBlockTokens][Pieces::kWords];
#pragma unroll
      for (int i = 0; i < kSelectionBlockTokens; ++i) {
        Pieces::Read(token[i], rows + Rows::At((4 * k + t) * kSelectionBlockTokens + i,
                                               (8 * p + g) * Pieces::kPieceBytes));
      }
      Pieces::MultiplyPiece(sums, p, weights, token);
    }
  }
};

/// A thread block's queries on their way to shared memory: each warp takes every fourth head.
/// Loading is apart from staging so that the loads run while the blocks are looked up.
template <KvElement kType, int kDim>
struct QueryLoad {
  static constexpr int kQuads = kDim / 4;  // of dimensions; each is 8 bytes of one fragment
  static constexpr int kPerLane = (kQuads + 31) / 32;
  float4 q[16 / kWarps][kPerLane];

  __device__ void Load(const SparseAttentionArgs& a, int heads) {
    const std::int64_t first =
        static_cast<std::int64_t>(blockIdx.z) * a.query_heads + blockIdx.y * heads;
#pragma unroll
    for (int n = 0; n < 16 / kWarps; ++n) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        // Past the end the last one again: a load without a branch.
        const int head = min(Warp() + kWarps * n, heads - 1);
        const int quad = min(Lane() + 32 * i, kQuads - 1);
        q[n][i] = *reinterpret_cast<const float4*>(a.query + (first + head) * kDim + 4 * quad);
      }
    }
  }

  /// As FP16 relative to the head's largest magnitude, in the order of fragments; rows past the
  /// last head are zeros.
  __device__ void Stage(Shared<kType, kDim>& s, int heads) const {
    using K = Keys<kType, kDim>;
#pragma unroll
    for (int n = 0; n < 16 / kWarps; ++n) {
      const int head = Warp() + kWarps * n;
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        largest = fmaxf(fmaxf(largest, fmaxf(fabsf(q[n][i].x), fabsf(q[n][i].y))),
                        fmaxf(fabsf(q[n][i].z), fabsf(q[n][i].w)));
      }
      largest = WarpMax(largest);
      const float scale = QueryScale(largest);
      const float inverse = 1.0f / scale;
      if (Lane() == 0) s.query_scale[head] = scale;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int quad = Lane() + 32 * i;
        if (quad >= kQuads) continue;
        // Inverse of the order of KeyPieces.
        const int chunk = 4 * quad / K::kPerPiece;
        const int step = chunk / 4 * K::kStepsPerPiece + 4 * quad % K::kPerPiece / 4;
        unsigned* const fragment =
            reinterpret_cast<unsigned*>(&s.query[step][4 * (head % 8) + chunk % 4]);
        const bool valid = head < heads;
        const float4 v = q[n][i];
        fragment[head / 8] = valid ? PackHalf2(v.x * inverse, v.y * inverse) : 0u;
        fragment[2 + head / 8] = valid ? PackHalf2(v.z * inverse, v.w * inverse) : 0u;
      }
    }
  }
};

/// What a warp knows of heads g and g + 8 (r = 0, 1): the largest score of its pair so far, the sum
/// of the weights of this lane's own tokens, and sums of weighted values in its half of the
/// dimensions.
template <KvElement kType, int kDim>
struct Running {
  float largest[2] = {-Infinity(), -Infinity()};
  float sum[2] = {0.0f, 0.0f};
  float values[kDim / 16][4] = {};

  /// Scores of the own half of a unit become weights, for both warps; what was summed before is put
  /// in relation to the largest score of the whole unit.
  __device__ void Weigh(Shared<kType, kDim>& s, const float (&scores)[2][4]) {
    const int g = Lane() / 4;
    float top[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(fmaxf(scores[0][2 * r], scores[0][2 * r + 1]),
                     fmaxf(scores[1][2 * r], scores[1][2 * r + 1]));
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 2));
      if (Lane() % 4 == 0) s.maxima[Warp()][g + 8 * r] = top[r];
    }
    __syncthreads();
    float factor[2];
    unsigned weights[4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(fmaxf(top[r], s.maxima[Warp() ^ 1][g + 8 * r]), largest[r]);
      factor[r] = exp2f(largest[r] - top[r]);
      largest[r] = top[r];
      sum[r] *= factor[r];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const unsigned pair =
            PackHalf2(exp2f(scores[u][2 * r] - top[r]), exp2f(scores[u][2 * r + 1] - top[r]));
        const float2 rounded = UnpackHalf2(pair);
        sum[r] += rounded.x + rounded.y;
        weights[2 * u + r] = pair;
      }
    }
    s.weights[Warp()][Lane()] = make_uint4(weights[0], weights[1], weights[2], weights[3]);
    if (__any_sync(kFullWarp, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (auto& tile : values) {
        tile[0] *= factor[0], tile[1] *= factor[0];
        tile[2] *= factor[1], tile[3] *= factor[1];
      }
    }
    __syncthreads();
  }
};

/// Scores of the own half of a unit in powers of two; -infinity for tokens past the end.
__device__ __forceinline__ void ScaleScores(const Split& split, int unit, const float (&factors)[2],
                                            float (&scores)[2][4]) {
  const int token = (kUnitBlocks * unit + 4 * Side() + Lane() % 4) * kSelectionBlockTokens;
#pragma unroll
  for (int u = 0; u < 2; ++u) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      scores[u][c] =
          token + 2 * u + c % 2 < split.tokens ? scores[u][c] * factors[c / 2] : -Infinity();
    }
  }
}

/// The two barriers of a unit, for a pair that has one unit fewer than the others.
__device__ __forceinline__ void KeepStep(int units) {
  if (units % kPairs == 0 || Pair() < units % kPairs) return;
  __syncthreads();
  __syncthreads();
}

/// All units of this pair of warps.
template <KvElement kType, int kDim>
__device__ void RunUnits(const SparseAttentionArgs& a, const Split& split, Shared<kType, kDim>& s,
                         const QueryLoad<kType, kDim>& queries, int heads,
                         Running<kType, kDim>& running) {
  using K = Keys<kType, kDim>;
  using V = Values<kType, kDim>;
  const int units = (split.blocks + kUnitBlocks - 1) / kUnitBlocks;
  if constexpr (kRunAhead) {
    K::Start(a, split, s, Pair());  // past the end, zeros are put there
    V::Start(a, split, s, Pair());
  }
  queries.Stage(s, heads);
  __syncthreads();
  const int g = Lane() / 4;
  const float factor = ScoreFactor<kType, kDim>(a.kv);
  const float factors[2] = {s.query_scale[g] * factor, s.query_scale[g + 8] * factor};
  for (int unit = Pair(); unit < units; unit += kPairs) {
    if constexpr (!kRunAhead) K::Start(a, split, s, unit);
    WaitForCopies<1>();
    __syncwarp();  // what other lanes copied is there
    float scores[2][4] = {};
    K::Multiply(s, scores);
    __syncwarp();  // every lane has read its part
    if constexpr (kRunAhead) K::Start(a, split, s, unit + kPairs);
    ScaleScores(split, unit, factors, scores);
    running.Weigh(s, scores);
    if constexpr (!kRunAhead) V::Start(a, split, s, unit);
    WaitForCopies<1>();
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      V::Multiply(s, k, s.weights[2 * Pair() + k][Lane()], running.values);
    }
    __syncwarp();
    if constexpr (kRunAhead) V::Start(a, split, s, unit + kPairs);
  }
  WaitForCopies<0>();
  KeepStep(units);
}

/// Adds this warp's sums of values, times factor[r] of heads g + 8 r, to s.Out; `first`: sets it.
template <KvElement kType, int kDim>
__device__ __forceinline__ void AddToOut(Shared<kType, kDim>& s,
                                         const Running<kType, kDim>& running,
                                         const float (&factor)[2], bool first) {
  using V = Values<kType, kDim>;
  const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
  for (int tile = 0; tile < V::kPieces * V::kPerPiece; tile += 4) {
    const int p = tile / V::kPerPiece, e = tile % V::kPerPiece;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int d = Side() * V::kHalf + (8 * p + 2 * t + c % 2) * V::kPerPiece + e;
      float4* const out = reinterpret_cast<float4*>(s.Out(g + 8 * (c / 2), d));
      float4 sum = first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *out;
      const auto& v = running.values;
      sum.x = fmaf(v[tile][c], factor[c / 2], sum.x);
      sum.y = fmaf(v[tile + 1][c], factor[c / 2], sum.y);
      sum.z = fmaf(v[tile + 2][c], factor[c / 2], sum.z);
      sum.w = fmaf(v[tile + 3][c], factor[c / 2], sum.w);
      *out = sum;
    }
  }
}

/// The warps' softmax states of one head, to those of warp 0.
template <KvElement kType, int kDim>
__device__ __forceinline__ void JoinSoftmax(Shared<kType, kDim>& s, int head) {
  float top = s.maxima[0][head], sum = s.sums[0][head];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) top = fmaxf(top, s.maxima[w][head]), sum += s.sums[w][head];
  s.maxima[0][head] = top;
  s.sums[0][head] = sum;
}

/// Adds up the pairs' results in their order: sums of values to s.Out, the softmax state of head h
/// to maxima[0][h] and sums[0][h].
template <KvElement kType, int kDim>
__device__ void JoinWarps(Shared<kType, kDim>& s, Running<kType, kDim>& running) {
  const int g = Lane() / 4, t = Lane() % 4;
  __syncthreads();  // the ring and the maxima are no longer read as such
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    running.sum[r] += __shfl_xor_sync(kFullWarp, running.sum[r], 1);
    running.sum[r] += __shfl_xor_sync(kFullWarp, running.sum[r], 2);
    if (t == 0) s.maxima[Warp()][g + 8 * r] = running.largest[r];
  }
  __syncthreads();
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = s.maxima[0][g + 8 * r];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) top = fmaxf(top, s.maxima[w][g + 8 * r]);
    factor[r] = exp2f(running.largest[r] - top);
    if (t == 0) s.sums[Warp()][g + 8 * r] = running.sum[r] * factor[r];
  }
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    if (Pair() == pair) AddToOut(s, running, factor, pair == 0);
    __syncthreads();
  }
  if (threadIdx.x < 16) JoinSoftmax(s, static_cast<int>(threadIdx.x));
  __syncthreads();
}

/// Where `head` of the split's K/V head has its output and gate.
__device__ HeadPlace PlaceOf(const SparseAttentionArgs& a, const Split& split, int head, int dim) {
  return PlaceOf(a, split.row, split.kv_head * (a.query_heads / a.kv.kv_heads) + head, dim);
}

/// Writes sum * scale * sigmoid(gate) of dimensions d to d + 3.
__device__ void WriteOut(const HeadPlace& place, int d, float4 sum, float scale) {
  *reinterpret_cast<float4*>(place.out + d) =
      Gated(make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale),
            *reinterpret_cast<const float4*>(place.gate + d));
}

/// Leaves this split's sums for Merge; true in the thread block that finishes last.
template <KvElement kType, int kDim>
__device__ bool LeavePartial(const SparseAttentionArgs& a, const Split& split,
                             Shared<kType, kDim>& s, int heads) {
  const std::int64_t pair = static_cast<std::int64_t>(split.row) * a.kv.kv_heads + split.kv_head;
  const std::int64_t first =
      (pair * MaxAttentionSplits(a.budget_selection_blocks) + split.index) * heads;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < heads * kDim; i += kThreads * 4) {
    *reinterpret_cast<float4*>(a.partials + first * kDim + i) =
        *reinterpret_cast<const float4*>(s.Out(i / kDim, i % kDim));
  }
  if (static_cast<int>(threadIdx.x) < heads) {
    *reinterpret_cast<float2*>(a.softmax + (first + threadIdx.x) * 2) =
        make_float2(s.maxima[0][threadIdx.x], s.sums[0][threadIdx.x]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    s.last = atomicAdd(a.tickets + pair, 1) == split.count - 1 ? 1 : 0;
    if (s.last != 0) a.tickets[pair] = 0;
  }
  __syncthreads();
  if (s.last != 0) __threadfence();
  return s.last != 0;
}

/// The last split of a row to finish adds up all of them, in their order.
template <KvElement kType, int kDim>
__device__ void Merge(const SparseAttentionArgs& a, const Split& split, Shared<kType, kDim>& s,
                      int heads, float value_factor) {
  const std::int64_t first =
      (static_cast<std::int64_t>(split.row) * a.kv.kv_heads + split.kv_head) *
      MaxAttentionSplits(a.budget_selection_blocks) * heads;
  const float2* const softmax = reinterpret_cast<const float2*>(a.softmax) + first;
  float* const factors = reinterpret_cast<float*>(s.ring);  // [split][head]
  if (static_cast<int>(threadIdx.x) < heads) {
    const int head = static_cast<int>(threadIdx.x);
    float largest = -Infinity(), sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < split.count; ++i) {
      const float2 part = __ldcg(softmax + i * heads + head);
      const float top = fmaxf(largest, part.x);
      sum = fmaf(sum, exp2f(largest - top), part.y * exp2f(part.x - top));
      largest = top;
      factors[i * 16 + head] = part.x;
    }
    for (int i = 0; i < split.count; ++i) {
      factors[i * 16 + head] = exp2f(factors[i * 16 + head] - largest);
    }
    s.factors[head] = value_factor / sum;
  }
  __syncthreads();
  const float* const partials = a.partials + first * kDim;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < heads * kDim; i += kThreads * 4) {
    const int head = i / kDim;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int k = 0; k < split.count; ++k) {
      const float4 part = __ldcg(reinterpret_cast<const float4*>(
          partials + static_cast<std::int64_t>(k) * heads * kDim + i));
      const float factor = factors[k * 16 + head];
      sum.x = fmaf(factor, part.x, sum.x), sum.y = fmaf(factor, part.y, sum.y);
      sum.z = fmaf(factor, part.z, sum.z), sum.w = fmaf(factor, part.w, sum.w);
    }
    WriteOut(PlaceOf(a, split, head, kDim), i % kDim, sum, s.factors[head]);
  }
}

template <KvElement kType, int kDim>
__device__ void Attend(const SparseAttentionArgs& a) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Memory = Shared<kType, kDim>;
  Memory& s = *reinterpret_cast<Memory*>(shared);
  static_assert(sizeof(Memory) == AttentionSharedBytes(kDim, kType, kRunAhead));
  const int heads = a.query_heads / a.kv.kv_heads;
  QueryLoad<kType, kDim> queries;
  queries.Load(a, heads);
  const Split split = FindSplit<kDim * kElementBytes<kType>>(a, s.blocks);
  if (split.count == 0 && split.index == 0 && a.rows.sequence[split.row] >= 0) {
    for (int i = static_cast<int>(threadIdx.x); i < heads * kDim; i += kThreads) {
      PlaceOf(a, split, i / kDim, kDim).out[i % kDim] = 0.0f;
    }
  }
  if (split.index >= split.count) return;
  __syncthreads();
  Running<kType, kDim> running;
  RunUnits<kType, kDim>(a, split, s, queries, heads, running);
  JoinWarps<kType, kDim>(s, running);
  const float value_factor = ValueFactor<kType>(a.kv);
  if (split.count == 1) {
    for (int i = static_cast<int>(threadIdx.x) * 4; i < heads * kDim; i += kThreads * 4) {
      const int head = i / kDim;
      WriteOut(PlaceOf(a, split, head, kDim), i % kDim,
               *reinterpret_cast<const float4*>(s.Out(head, i % kDim)),
               value_factor / s.sums[0][head]);
    }
    return;
  }
  if (LeavePartial(a, split, s, heads)) Merge(a, split, s, heads, value_factor);
}

}  // namespace

#define KV8_ATTENTION(name, type, dim, blocks)                              \
  extern "C" __global__ void __launch_bounds__(kThreads, blocks)            \
      kv8_sparse_attention_##name##_##dim(const SparseAttentionArgs args) { \
    AfterEarlierKernels();                                                  \
    Attend<KvElement::type, dim>(args);                                     \
  }
KV8_ATTENTION(fp16, kFp16, 64, 4)
KV8_ATTENTION(fp16, kFp16, 128, 4)
KV8_ATTENTION(fp16, kFp16, 256, 3)
KV8_ATTENTION(e4m3, kE4M3, 64, 4)
KV8_ATTENTION(e4m3, kE4M3, 128, 4)
KV8_ATTENTION(e4m3, kE4M3, 256, 4)
#undef KV8_ATTENTION

}  // namespace kv8::cuda
