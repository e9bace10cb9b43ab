// One warp per row and head: norm, rotation, encoding, stores. Contract: qsa_store.h.
#include "ops/cuda/qsa_store.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kMaxDim = 256;
constexpr int kPerLane = kMaxDim / 32;
constexpr int kWarps = 4;

/// Head values of a lane: value i stands at dimension lane + 32 i.
struct HeadValues {
  float x[kPerLane];
};

__device__ HeadValues LoadHead(const float* in, int dim) {
  HeadValues head;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = Lane() + 32 * i;
    head.x[i] = d < dim ? in[d] : 0.0f;
  }
  return head;
}

/// x * rsqrt(mean(x^2) + eps) * gain, to shared memory.
__device__ void NormTo(float* shared, const HeadValues& head, const float* gain, int dim,
                       float eps) {
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) squares = fmaf(head.x[i], head.x[i], squares);
  const float scale = rsqrtf(WarpSum(squares) / static_cast<float>(dim) + eps);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = Lane() + 32 * i;
    if (d < dim) shared[d] = head.x[i] * scale * gain[d];
  }
  __syncwarp();
}

/// Rotates the first `rotary` dimensions (NUM-28). The angle is FP32; it is reduced to half turns
/// in double, where the quotient by pi is good to 2^-40 of a turn for any position.
__device__ void Rotate(float* shared, const float* inv_freq, int rotary, std::int64_t position) {
  const int half = rotary / 2;
  for (int j = Lane(); j < half; j += 32) {
    const float angle = static_cast<float>(position) * inv_freq[j];
    double turns = static_cast<double>(angle) * 0.31830988618379067154;
    turns -= 2.0 * rint(0.5 * turns);
    float s, c;
    sincospif(static_cast<float>(turns), &s, &c);
    const float first = shared[j], second = shared[j + half];
    shared[j] = first * c - second * s;
    shared[j + half] = second * c + first * s;
  }
  __syncwarp();
}

__device__ void WriteFloats(float* out, const float* shared, int dim) {
  for (int d = Lane(); d < dim; d += 32) out[d] = shared[d];
}

__device__ void WriteHalves(std::uint16_t* out, const float* shared, int dim) {
  for (int d = 2 * Lane(); d < dim; d += 64) {
    *reinterpret_cast<unsigned*>(out + d) =
        EncodeFp16(shared[d]) | (EncodeFp16(shared[d + 1]) << 16);
  }
}

/// Quantises, and counts what clips into counts[0] and what becomes 0 into counts[2].
__device__ void WriteCodes(unsigned char* out, const float* shared, int dim, float scale,
                           unsigned long long* counts) {
  unsigned count = 0;  // clipped in the low half, flushed in the high one: both at most kMaxDim
  for (int d = 4 * Lane(); d < dim; d += 128) {
    unsigned codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = shared[d + i];
      const float q = isnan(x) ? x : __fdiv_rn(x, scale);  // the device's quotient drops NaN's sign
      count += fabsf(q) > 448.0f ? 1u : 0u;
      count += x != 0.0f && fabsf(q) <= 0x1p-10f ? 1u << 16 : 0u;
      codes |= EncodeE4M3(q) << (8 * i);
    }
    *reinterpret_cast<unsigned*>(out + d) = codes;
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    count += __shfl_xor_sync(kFullWarp, count, offset);
  }
  if (Lane() != 0) return;
  const unsigned clipped = count & 0xFFFFu, flushed = count >> 16;
  if (clipped != 0) atomicAdd(counts, static_cast<unsigned long long>(clipped));
  if (flushed != 0) atomicAdd(counts + 2, static_cast<unsigned long long>(flushed));
}

__device__ void StoreVector(const QsaStoreArgs& a, int sequence, std::int64_t position, int side,
                            int head, const float* shared) {
  const int dim = a.kv.head_dim;
  const int page = a.tables.pages[sequence * a.tables.stride + position / kPageTokens];
  const int bytes = dim * (a.kv.type == KvElement::kFp16 ? 2 : 1);
  unsigned char* const out = a.kv.data + KvOffset(a.kv.kv_heads, bytes, page, side, head,
                                                  static_cast<int>(position % kPageTokens));
  if (a.kv.type == KvElement::kFp16) {
    WriteHalves(reinterpret_cast<std::uint16_t*>(out), shared, dim);
  } else {
    WriteCodes(out, shared, dim, side == 0 ? a.kv.k_scale : a.kv.v_scale, a.saturation + side);
  }
}

/// True when `row` of this call is the token `position` of `sequence`.
__device__ bool IsRow(const QsaStoreArgs& a, int row, int sequence, std::int64_t position) {
  return row >= 0 && row < a.rows.count && a.rows.sequence[row] == sequence &&
         a.rows.position[row] == position;
}

/// The raw key to the ring; the key of a selection block that it completes to the index pool. Raw
/// keys of rows of this call come from the operand, so no warp waits for another.
__device__ void StoreIndexKey(const QsaStoreArgs& a, int row, int sequence, std::int64_t position,
                              float* shared) {
  const int dim = a.index.index_dim;
  const std::int64_t row_width = static_cast<std::int64_t>(a.index_heads + 1) * dim;
  const float* const raw = a.index_qk + row * row_width + a.index_heads * dim;
  float* const ring = a.index_ring + static_cast<std::int64_t>(sequence) * kRingTokens * dim;
  const std::int64_t first = position + 1 - a.selection_block_tokens;
  if ((position + 1) % a.selection_block_tokens == 0) {
    HeadValues mean{};
    for (int i = 0; i < a.selection_block_tokens; ++i) {
      const int back = a.selection_block_tokens - 1 - i;
      const float* const from = IsRow(a, row - back, sequence, first + i)
                                    ? raw - back * row_width
                                    : ring + (first + i) % kRingTokens * dim;
      const HeadValues token = LoadHead(from, dim);
#pragma unroll
      for (int k = 0; k < kPerLane; ++k) mean.x[k] += token.x[k];
    }
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) mean.x[k] /= static_cast<float>(a.selection_block_tokens);
    NormTo(shared, mean, a.index_k_gain, dim, a.eps);
    Rotate(shared, a.inv_freq, a.rotary_dim, first);
    const std::int64_t key = position / a.selection_block_tokens;
    const int keys = kPageTokens / a.selection_block_tokens;
    const std::int64_t page = a.tables.pages[sequence * a.tables.stride + key / keys];
    WriteHalves(a.index.data + (page * keys + key % keys) * dim, shared, dim);
  }
  // A later row of this call will take the same place in the ring.
  if (IsRow(a, row + kRingTokens, sequence, position + kRingTokens)) return;
  for (int d = Lane(); d < dim; d += 32) ring[position % kRingTokens * dim + d] = raw[d];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kWarps) kv8_qsa_store(const QsaStoreArgs a) {
  AfterEarlierKernels();
  __shared__ float buffers[kWarps][kMaxDim];
  float* const shared = buffers[Warp()];
  const int row = static_cast<int>(blockIdx.x);
  int head = static_cast<int>(blockIdx.y) * kWarps + Warp();
  const int sequence = a.rows.sequence[row];
  if (sequence < 0) return;
  const std::int64_t position = a.rows.position[row];
  const int dim = a.kv.head_dim, heads = a.kv.kv_heads, index_dim = a.index.index_dim;

  if (head < a.query_heads) {
    const std::int64_t at = static_cast<std::int64_t>(row) * a.query_heads + head;
    NormTo(shared, LoadHead(a.query_gate + at * 2 * dim, dim), a.q_gain, dim, a.eps);
    Rotate(shared, a.inv_freq, a.rotary_dim, position);
    WriteFloats(a.query + at * dim, shared, dim);
    return;
  }
  head -= a.query_heads;
  if (head < 2 * heads) {
    const int side = head < heads ? 0 : 1;
    const int kv_head = head - side * heads;
    const float* const from =
        (side == 0 ? a.key : a.value) + (static_cast<std::int64_t>(row) * heads + kv_head) * dim;
    if (side == 0) {
      NormTo(shared, LoadHead(from, dim), a.k_gain, dim, a.eps);
      Rotate(shared, a.inv_freq, a.rotary_dim, position);
      if (a.key_out != nullptr) {
        WriteFloats(a.key_out + (static_cast<std::int64_t>(row) * heads + kv_head) * dim, shared,
                    dim);
      }
    } else {
      for (int d = Lane(); d < dim; d += 32) shared[d] = from[d];
      __syncwarp();
    }
    StoreVector(a, sequence, position, side, kv_head, shared);
    return;
  }
  head -= 2 * heads;
  if (head < a.index_heads) {
    const float* const from =
        a.index_qk + (static_cast<std::int64_t>(row) * (a.index_heads + 1) + head) * index_dim;
    NormTo(shared, LoadHead(from, index_dim), a.index_q_gain, index_dim, a.eps);
    Rotate(shared, a.inv_freq, a.rotary_dim, position);
    WriteFloats(a.index_query + (static_cast<std::int64_t>(row) * a.index_heads + head) * index_dim,
                shared, index_dim);
  } else if (head == a.index_heads) {
    StoreIndexKey(a, row, sequence, position, shared);
  }
}

}  // namespace kv8::cuda
