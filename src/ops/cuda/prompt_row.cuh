// A row of a prompt in sparse attention: a warp's products and softmax.
#pragma once

#include "ops/cuda/prompt_queue.cuh"

namespace kv8::cuda {

/// A row's queries as they are stored, on their way: lane 4 g + t takes of heads g and g + 8 what
/// it needs for each step of a product. Zeros for heads that are not there.
template <KvElement kType, int kDim>
struct StoredQueries {
  using K = KeyPieces<kType, kDim>;

  float4 step[2][kDim / 16];

  __device__ StoredQueries(const Work<kType, kDim>& w, int heads) {
    const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int head = g + 8 * r;
      // Of a head that is not there the last one's address: no load needs a branch.
      const float* const from =
          w.a.query + (static_cast<std::int64_t>(w.RowIndex()) * w.a.query_heads +
                       w.kv_head * heads + min(head, heads - 1)) *
                          kDim;
#pragma unroll
      for (int s = 0; s < kDim / 16; ++s) {
        const int d =
            (4 * (s / K::kStepsPerPiece) + t) * K::kPerPiece + 4 * (s % K::kStepsPerPiece);
        step[r][s] = head < heads ? *reinterpret_cast<const float4*>(from + d)
                                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
  }
};

/// How much larger than the largest score that the sums relate to a score may be, as a power of
/// two, before they are put in relation to it: weights are FP16.
inline constexpr float kScoreSlack = 8.0f;

/// A warp's row: its queries, and what it knows of heads g and g + 8 (r = 0, 1): the score that the
/// sums relate to, the sums of weights and of weighted values.
template <KvElement kType, int kDim>
struct Row {
  using W = Work<kType, kDim>;
  using K = KeyPieces<kType, kDim>;

  static constexpr unsigned kOnes = 0x3C003C00;  // FP16
  static constexpr int kSteps = kDim / 16;
  static constexpr int kPerLoad = kType == KvElement::kE4M3 ? 4 : 2;  // products, of V
  static constexpr int kHeld = kDim == 256 ? 8 : kSteps;
  static_assert((kSteps - kHeld) * 512 <= kPromptScratchBytes);

  // Fragments of the queries as FP16, relative to the head's largest magnitude; those of the steps
  // from kHeld on are in shared memory.
  unsigned query[kHeld][4];
  uint4* const more;
  const KeptLane lane;
  float factor[2];  // of scores
  float base[2] = {-Infinity(), -Infinity()};
  float sums[4] = {};  // a product with ones: columns are alike, heads as in `values`
  float values[kDim / 8][4] = {};

  __device__ explicit Row(const W& w)
      : more(w.scratch + w.warp * (kPromptScratchBytes / 16)), lane(w.lane) {}

  __device__ void Load(const W& w, const StoredQueries<kType, kDim>& queries) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = 0.0f;
#pragma unroll
      for (const float4& q : queries.step[r]) {
        largest =
            fmaxf(fmaxf(largest, fmaxf(fabsf(q.x), fabsf(q.y))), fmaxf(fabsf(q.z), fabsf(q.w)));
      }
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 2));
      const float scale = QueryScale(largest);
      const float inverse = 1.0f / scale;
      // Not zero: a missing token's score, minus infinity, stays that.
      factor[r] = fmaxf(scale * ScoreFactor<kType, kDim>(w.a.kv), kLeastNormal);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const float4& q = queries.step[r][s];
        unsigned* const to =
            s < kHeld ? query[s] : reinterpret_cast<unsigned*>(more + (s - kHeld) * 32 + Lane());
        to[r] = PackHalf2(q.x * inverse, q.y * inverse);
        to[2 + r] = PackHalf2(q.z * inverse, q.w * inverse);
      }
    }
    __syncwarp();
  }

  /// The query's fragment of a step.
  __device__ __forceinline__ void Query(int step, unsigned (&fragment)[4]) const {
    if (step < kHeld) {
#pragma unroll
      for (int i = 0; i < 4; ++i) fragment[i] = query[min(step, kHeld - 1)][i];
    } else {
      const uint4 q = more[(step - kHeld) * 32 + lane()];
      fragment[0] = q.x, fragment[1] = q.y, fragment[2] = q.z, fragment[3] = q.w;
    }
  }

  /// scores[n][u], column c: q . K of token c % 4 of block 4 n + 2 u + c / 4. `key_at[n][u]` is
  /// where the block of column g is.
  __device__ __forceinline__ void Score(const unsigned char* ring, const int (&key_at)[kDeep][2],
                                        float (&scores)[kDeep][2][4]) const {
    const int g = lane() / 4, t = lane() % 4;
    // Pieces j of even and of odd j; turns reach no further.
    const int place[2] = {TileByte<W::kRowBytes>(g % 4, 16 * t, TurnOfKey(g)),
                          TileByte<W::kRowBytes>(g % 4, 16 * (4 + t), TurnOfKey(g))};
#pragma unroll
    for (int j = 0; j < K::kPieces; ++j) {
      uint4 piece[kDeep][2];
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          piece[n][u] =
              *reinterpret_cast<const uint4*>(ring + key_at[n][u] + place[j % 2] + j / 2 * 128);
        }
      }
      ScorePiece(piece, j, scores);
    }
  }

  /// scores += q . K in the dimensions of piece j.
  __device__ __forceinline__ void ScorePiece(const uint4 (&piece)[kDeep][2], int j,
                                             float (&scores)[kDeep][2][4]) const {
    uint2 operands[K::kStepsPerPiece][kDeep][2];
#pragma unroll
    for (int i = 0; i < K::kStepsPerPiece; ++i) {
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          uint2& operand = operands[i][n][u];
          operand = K::Operand(piece[n][u], i);
          // All conversions before the products: one by one, each product waits for its own.
          if (kType == KvElement::kE4M3) asm volatile("" : "+r"(operand.x), "+r"(operand.y));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < K::kStepsPerPiece; ++i) {
      unsigned fragment[4];
      Query(j * K::kStepsPerPiece + i, fragment);
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          MmaFp16(scores[n][u], fragment, operands[i][n][u].x, operands[i][n][u].y);
        }
      }
    }
  }

  /// Puts the sums in relation to larger scores, where there are much larger ones. `top`: of the
  /// lane's own tokens.
  __device__ __forceinline__ void Raise(float (&top)[2]) {
    if (!__any_sync(kFullWarp, top[0] > base[0] + kScoreSlack || top[1] > base[1] + kScoreSlack)) {
      return;
    }
    float relation[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 2));
      const bool raise = top[r] > base[r] + kScoreSlack;
      relation[r] = raise ? Exp2(base[r] - top[r]) : 1.0f;
      base[r] = raise ? top[r] : base[r];
    }
    const auto relate = [&relation](float(&tile)[4]) {
      tile[0] *= relation[0], tile[1] *= relation[0];
      tile[2] *= relation[1], tile[3] *= relation[1];
    };
    relate(sums);
#pragma unroll
    for (auto& tile : values) relate(tile);
  }

  /// Scores become FP16 weights.
  __device__ __forceinline__ void Weigh(const float (&scores)[kDeep][2][4],
                                        unsigned (&weights)[kDeep][4]) {
    float top[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = -Infinity();
#pragma unroll
      for (int i = 0; i < 2 * kDeep; ++i) {
        const float* const two = scores[i / 2][i % 2] + 2 * r;
        top[r] = fmaxf(top[r], fmaxf(two[0], two[1]));
      }
      top[r] *= factor[r];
    }
    Raise(top);
#pragma unroll
    for (int n = 0; n < kDeep; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i % 2;
        const float* const two = scores[n][i / 2] + 2 * r;
        weights[n][i] = PackHalf2(Exp2(fmaf(two[0], factor[r], -base[r])),
                                  Exp2(fmaf(two[1], factor[r], -base[r])));
      }
      MmaFp16(sums, weights[n], kOnes, kOnes);
    }
  }

  /// kTakenBlocks `blocks`. `whole`: all of their tokens count.
  __device__ __forceinline__ void Add(const W& w, const BlockPlace* blocks, bool whole) {
    int key_at[kDeep][2];
#pragma unroll
    for (int i = 0; i < 2 * kDeep; ++i) {
      key_at[i / 2][i % 2] = blocks[2 * i + lane() / 16].Offset();
    }
    float scores[kDeep][2][4] = {};
    Score(w.ring, key_at, scores);
    if (!whole) Cut(w, blocks, scores);
    int value_at[kDeep];  // read before the softmax, which does not wait for them
#pragma unroll
    for (int n = 0; n < kDeep; ++n) {
      value_at[n] = blocks[4 * n + lane() / 8 % 2 * 2 + lane() % 8 / 4].Offset();
    }
    unsigned weights[kDeep][4];
    Weigh(scores, weights);
#pragma unroll
    for (int n = 0; n < kDeep; ++n) AddValues(w.ring, value_at[n], weights[n]);
  }

  /// values += weights . V of four blocks. Lane 8 m + r gives the address of row r of matrix m:
  /// token r % 4 of the block at `offset`. A load's operands are made before the last one's are
  /// used.
  __device__ __forceinline__ void AddValues(const unsigned char* ring, int offset,
                                            const unsigned (&weights)[4]) {
    const int token = lane() % 4, turn = ValueTurn(offset / W::kBlockBytes, token);
    const unsigned from = SharedAddress(ring) + static_cast<unsigned>(offset) + W::kSideBytes +
                          TileByte<W::kRowBytes>(token, lane() / 16 * 16, turn);
    const auto load = [&](int i, unsigned(&operands)[2 * kPerLoad]) {
      unsigned v[4];
      // Turns do not reach past eight pieces, to which tokens are aligned.
      LoadTransposed(v, (from ^ (i % 4 * 32)) + i / 4 * 128);
      ToOperands(v, operands);
    };
    constexpr int kLoads = W::kRowBytes / 32;
    unsigned operands[2][2 * kPerLoad];
    load(0, operands[0]);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i + 1 < kLoads) load(i + 1, operands[(i + 1) % 2]);
#pragma unroll
      for (int j = 0; j < kPerLoad; ++j) {
        MmaFp16(values[kPerLoad * i + j], weights, operands[i % 2][2 * j],
                operands[i % 2][2 * j + 1]);
      }
    }
  }

  /// What a load of V brings, 32 bytes of each token, as operands of kPerLoad products. Of E4M3 two
  /// dimensions of a token travel as one value: one product takes the even ones, one the odd ones.
  __device__ __forceinline__ static void ToOperands(const unsigned (&v)[4],
                                                    unsigned (&operands)[2 * kPerLoad]) {
    if constexpr (kType == KvElement::kFp16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) operands[i] = v[i];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const unsigned sorted = __byte_perm(v[i], 0u, 0x3120);
        unsigned* const to = operands + i / 2 * 4 + i % 2;
        to[0] = E4M3ToHalf2(sorted), to[2] = E4M3ToHalf2<true>(sorted);
        asm volatile("" : "+r"(to[0]), "+r"(to[2]));  // now, not when a product waits for them
      }
    }
  }

  /// Leaves the tokens that count.
  __device__ __forceinline__ void Cut(const W& w, const BlockPlace* blocks,
                                      float (&scores)[kDeep][2][4]) const {
    const int t = lane() % 4, open = w.OpenTokens(w.RowIndex() - w.group.begin);
#pragma unroll
    for (int n = 0; n < kDeep; ++n) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int tokens = blocks[4 * n + 2 * u + t / 2].Tokens(open);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if (t % 2 * 2 + c < tokens) continue;
          scores[n][u][c] = scores[n][u][2 + c] = -Infinity();
        }
      }
    }
  }

  /// Writes the row's output. 64 dimensions at a time pass through the warp's scratch, [head][piece
  /// of 16 bytes], so that neighbouring lanes write neighbouring dimensions.
  __device__ void Write(const W& w, int heads) {
    const int row = w.RowIndex();
    float4* const scratch = reinterpret_cast<float4*>(more);
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // A row without tokens has no weights.
      scale[r] = sums[2 * r] == 0.0f ? 0.0f : ValueFactor<kType>(w.a.kv) / sums[2 * r];
    }
    float4 gates[2][8];  // of this part and the next
    LoadGates(w, row, heads, 0, gates[0]);
#pragma unroll
    for (int part = 0; part < kDim / 64; ++part) {
      if (part + 1 < kDim / 64) LoadGates(w, row, heads, part + 1, gates[(part + 1) % 2]);
      __syncwarp();
      Spread(scratch, part, scale);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int head = 2 * i + Lane() / 16, piece = Lane() % 16;
        if (head >= heads) continue;
        *reinterpret_cast<float4*>(Place(w, row, head, heads, part).out) =
            Gated(scratch[head * 16 + (piece ^ head % 8)], gates[part % 2][i]);
      }
    }
  }

 private:
  /// Puts this lane's share of 64 dimensions of the output into their places.
  __device__ __forceinline__ void Spread(float4* scratch, int part, const float (&scale)[2]) const {
    const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int head = g + 8 * r;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float* const v = values[8 * part + i] + 2 * r;
        if constexpr (kType == KvElement::kFp16) {
          reinterpret_cast<float2*>(scratch + head * 16 + ((2 * i + t / 2) ^ g))[t % 2] =
              make_float2(v[0] * scale[r], v[1] * scale[r]);
        } else if (i % 2 == 0) {  // with the odd dimensions
          const float* const odd = values[8 * part + i + 1] + 2 * r;
          scratch[head * 16 + ((2 * i + t) ^ g)] =
              make_float4(v[0] * scale[r], odd[0] * scale[r], v[1] * scale[r], odd[1] * scale[r]);
        }
      }
    }
  }
  /// Where this lane's four of 64 dimensions of a head are.
  __device__ static HeadPlace Place(const W& w, int row, int head, int heads, int part) {
    const int d = 64 * part + 4 * (Lane() % 16);
    const HeadPlace place = PlaceOf(w.a, row, w.kv_head * heads + head, kDim);
    return {place.out + d, place.gate + d};
  }
  __device__ static void LoadGates(const W& w, int row, int heads, int part, float4 (&gates)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int head = min(2 * i + Lane() / 16, heads - 1);
      gates[i] = *reinterpret_cast<const float4*>(Place(w, row, head, heads, part).gate);
    }
  }
};

}  // namespace kv8::cuda
