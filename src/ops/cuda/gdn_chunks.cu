// Gated DeltaNet in chunks of 64 rows: what a prompt goes through. Contract: gdn.h.
//
// With G the running sum of the log decays of a chunk's rows, D_ij = exp(G_i - G_j) for j <= i and
// S the state before the chunk:
//   V_i = beta_i (v_i - e^G_i S^T k_i - sum_{j<i} D_ij (k_i . k_j) V_j)
//   o_i = e^G_i S^T q_i + sum_{j<=i} D_ij (q_i . k_j) V_j
//   S  <- e^G_last S + sum_j D_last,j k_j V_j^T
// The sum over j < i is a triangular system with one right side per value column. Its inverse and
// the weights of q do not depend on the state, so all chunks make them at once (Weigh); what is
// left to do in order are four products per chunk (Scan).
#include "ops/cuda/gdn_slice.cuh"
#include "ops/cuda/mma.cuh"

namespace kv8::cuda {
namespace {

constexpr int kChunk = kGdnChunkRows;
constexpr int kThreads = 256;
constexpr int kRowTiles = kChunk / 16;  // half of the warps: one tile of rows each, twice
static_assert(kThreads / 32 == 2 * kRowTiles);

/// One chunk of one value head.
struct Chunk {
  std::int64_t row;  // first
  int rows;          // 1 to kChunk
  float* solve;      // [kChunk,kChunk]: (I + L)^-1 diag(beta)
  float* weights;    // [kChunk,kChunk]: D_ij (q_i . k_j)
  float* decay_in;   // [kChunk]: e^G_i
  float* decay_out;  // [kChunk]: D_last,i
};
__device__ __forceinline__ Chunk FindChunk(const GdnArgs& a, const GdnSliceRows& slice,
                                           int slice_index, int index, int head) {
  // No two chunks meet here, as slices ascend.
  const std::int64_t place = slice.begin / kChunk + slice_index + index;
  float* const scratch = a.chunks + (place * a.value_heads + head) * kGdnChunkFloats;
  return {slice.begin + std::int64_t{kChunk} * index,
          min(kChunk, slice.count - kChunk * index),
          scratch,
          scratch + kChunk * kChunk,
          scratch + 2 * kChunk * kChunk,
          scratch + 2 * kChunk * kChunk + kChunk};
}

/// Where a value head finds its vectors in `convolved`.
template <int kDim>
struct HeadChannels {
  std::int64_t stride;
  const float *q, *k, *v;  // of row 0

  __device__ HeadChannels(const GdnArgs& a, int head)
      : stride(static_cast<std::int64_t>(2 * a.key_heads + a.value_heads) * kDim) {
    const int key_head = head / (a.value_heads / a.key_heads);
    q = a.convolved + static_cast<std::int64_t>(key_head) * kDim;
    k = q + static_cast<std::int64_t>(a.key_heads) * kDim;
    v = a.convolved + static_cast<std::int64_t>(2 * a.key_heads + head) * kDim;
  }
};

/// Operands hold their inner index in this order: step s of 16, lane t's values 4 t to 4 t + 3, of
/// which the first two are one product's and the others the next one's.
__device__ __forceinline__ float4 ReadRow(const float* row, int s, bool valid) {
  return valid ? *reinterpret_cast<const float4*>(row + 16 * s + 4 * (Lane() % 4))
               : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}
struct RowOperands {
  Fp32Operand first[4], second[4];

  __device__ RowOperands(const float4& above, const float4& below)
      : first{Fp32Operand(above.x), Fp32Operand(below.x), Fp32Operand(above.y),
              Fp32Operand(below.y)},
        second{Fp32Operand(above.z), Fp32Operand(below.z), Fp32Operand(above.w),
               Fp32Operand(below.w)} {}
};
__device__ __forceinline__ void Multiply(float (&d)[4], const RowOperands& a, float b0, float b1,
                                         float b2, float b3) {
  const Fp32Operand first[2] = {Fp32Operand(b0), Fp32Operand(b1)};
  const Fp32Operand second[2] = {Fp32Operand(b2), Fp32Operand(b3)};
  MmaFp32(d, a.first, first);
  MmaFp32(d, a.second, second);
}

/// A matrix in shared memory that is the right side of a product: [inner index, column]. Rows 4 t
/// apart lie in different banks.
struct RightSide {
  static constexpr int kStride = kGdnScanColumns + 2;

  __device__ static void Multiply(float (&d)[4], const RowOperands& a, const float* matrix, int s,
                                  int tile) {
    const float* const b = matrix + (16 * s + 4 * (Lane() % 4)) * kStride + 8 * tile + Lane() / 4;
    cuda::Multiply(d, a, b[0], b[kStride], b[2 * kStride], b[3 * kStride]);
  }
};

// ---- weights ----------------------------------------------------------------------------------

struct WeighShared {
  static constexpr int kStride = kChunk + 4;  // rows of four neighbours stay aligned
  float system[kChunk][kStride];              // L
  double log_decay[kChunk];                   // G; sums pass the range where FP32 is exact enough
  float beta[kChunk];
};

/// G, beta and the decays, by the first warp. Rows past the end change nothing.
__device__ void SumDecays(const GdnArgs& a, const Chunk& chunk, int head, WeighShared& s) {
  double own[2];  // sums over this lane's rows
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * Lane() + i;
    const bool valid = row < chunk.rows;
    own[i] = (i == 0 ? 0.0 : own[0]) +
             (valid ? static_cast<double>(GdnLogDecay(a, chunk.row + row, head)) : 0.0);
    s.beta[row] = valid ? Sigmoid(a.b[(chunk.row + row) * a.value_heads + head]) : 0.0f;
  }
  double sum = own[1];  // over all lanes up to this one
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const double other = __shfl_up_sync(kFullWarp, sum, offset);
    if (Lane() >= offset) sum += other;
  }
  const double total = __shfl_sync(kFullWarp, sum, 31);
  const double lanes_before = __shfl_up_sync(kFullWarp, sum, 1);
  const double before = Lane() == 0 ? 0.0 : lanes_before;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const double g = before + own[i];
    s.log_decay[2 * Lane() + i] = g;
    chunk.decay_in[2 * Lane() + i] = expf(static_cast<float>(g));
    chunk.decay_out[2 * Lane() + i] = expf(static_cast<float>(total - g));
  }
}

/// Products of one tile of rows, of k or of q, with all k at or before them: to the system, or to
/// the weights.
template <int kDim>
__device__ void WeighTile(const GdnArgs& a, const Chunk& chunk, int head, WeighShared& s) {
  const HeadChannels<kDim> in(a, head);
  const int tile = Warp() % kRowTiles, g = Lane() / 4, t = Lane() % 4;
  const bool of_q = Warp() >= kRowTiles;
  const int above = 16 * tile + g, below = above + 8;
  const float* const keys = in.k + chunk.row * in.stride;
  const float* const rows = of_q ? in.q + chunk.row * in.stride : keys;
  constexpr int kTiles = kChunk / 8;
  float d[kTiles][4] = {};
  for (int step = 0; step < kDim / 16; ++step) {
    const RowOperands operands(ReadRow(rows + above * in.stride, step, above < chunk.rows),
                               ReadRow(rows + below * in.stride, step, below < chunk.rows));
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (n > 2 * tile + 1) break;  // all later than these rows
      const int key = 8 * n + g;
      const float4 b = ReadRow(keys + key * in.stride, step, key < chunk.rows);
      Multiply(d[n], operands, b.x, b.y, b.z, b.w);
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int i = above + 8 * (c / 2), j = 8 * n + 2 * t + c % 2;
      const float decay = j <= i ? expf(static_cast<float>(s.log_decay[i] - s.log_decay[j])) : 0.0f;
      if (of_q) {
        chunk.weights[i * kChunk + j] = j <= i ? decay * d[n][c] : 0.0f;
      } else {
        s.system[i][j] = j < i ? s.beta[i] * decay * d[n][c] : 0.0f;
      }
    }
  }
}

/// Column `column` of (I + L)^-1 diag(beta), by one thread each: x_i = [i = column] - sum L_ij x_j.
__device__ void Solve(const Chunk& chunk, const WeighShared& s, int column) {
  float x[kChunk];
  const float beta = s.beta[column];
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 l = *reinterpret_cast<const float4*>(&s.system[i][j]);
      const float row[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (j + n < i) sums[n] = fmaf(row[n], x[j + n], sums[n]);
      }
    }
    x[i] = column > i ? 0.0f
                      : (column == i ? 1.0f : 0.0f) - ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    chunk.solve[i * kChunk + column] = column > i ? 0.0f : x[i] * beta;
  }
}

/// Thread blocks: x over chunks of a slice, y over value heads, z over slices.
template <int kDim>
__device__ void Weigh(const GdnArgs& a) {
  __shared__ __align__(16) WeighShared s;
  const int index = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int slice_index = static_cast<int>(blockIdx.z);
  const GdnSliceRows slice = FindGdnSlice(a.slices, slice_index);
  if (slice.slot < 0 || kChunk * index >= slice.count) return;
  const Chunk chunk = FindChunk(a, slice, slice_index, index, head);
  if (Warp() == 0) SumDecays(a, chunk, head, s);
  __syncthreads();
  WeighTile<kDim>(a, chunk, head, s);
  __syncthreads();
  if (threadIdx.x < kChunk) Solve(chunk, s, static_cast<int>(threadIdx.x));
}

// ---- scan -------------------------------------------------------------------------------------

/// One value head of one sequence, kGdnScanColumns of its value columns. Zeros of the triangular
/// matrices meet later rows in the products; if those are not finite, plain loops stop before them.
template <int kDim>
struct ChunkScan {
  static constexpr int kColumns = kGdnScanColumns;
  static constexpr int kTiles = kColumns / 8;
  static constexpr int kStride = RightSide::kStride;

  struct Shared {
    float state[kDim * kStride];
    float rests[kChunk * kStride];   // v - e^G S^T k
    float values[kChunk * kStride];  // V
  };

  const GdnArgs& a;
  Shared& s;
  HeadChannels<kDim> in;
  int head, first_column;
  float state[kTiles][4];  // of key dimensions 16 Warp() + g (+ 8)

  __device__ ChunkScan(const GdnArgs& args, Shared& shared)
      : a(args),
        s(shared),
        in(args, static_cast<int>(blockIdx.y)),
        head(static_cast<int>(blockIdx.y)),
        first_column(static_cast<int>(blockIdx.x) * kColumns) {}

  __device__ void Run() {
    const int slice_index = static_cast<int>(blockIdx.z);
    const GdnSliceRows slice = FindGdnSlice(a.slices, slice_index);
    if (slice.slot < 0 || slice.count == 0) return;
    float* const stored =
        a.state + (static_cast<std::int64_t>(slice.slot) * a.value_heads + head) * kDim * kDim +
        first_column;
    ForState([&](int tile, int c, int dim, int column) {
      const float2 pair = *reinterpret_cast<const float2*>(stored + dim * kDim + column);
      state[tile][c] = pair.x, state[tile][c + 1] = pair.y;
    });
    ShareState();
    __syncthreads();
    for (int index = 0; kChunk * index < slice.count; ++index) {
      Step(FindChunk(a, slice, slice_index, index, head));
      __syncthreads();  // the state is there, and everything else may be written again
    }
    ForState([&](int tile, int c, int dim, int column) {
      *reinterpret_cast<float2*>(stored + dim * kDim + column) =
          make_float2(state[tile][c], state[tile][c + 1]);
    });
  }

 private:
  /// Calls visit(tile, c, dim, column) for each pair of neighbours that this lane holds.
  template <class Visit>
  __device__ void ForState(Visit&& visit) {
    if (16 * Warp() >= kDim) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; c += 2) {
        visit(tile, c, 16 * Warp() + Lane() / 4 + 4 * c, 8 * tile + 2 * (Lane() % 4));
      }
    }
  }
  __device__ void ShareState() {
    ForState([&](int tile, int c, int dim, int column) {
      *reinterpret_cast<float2*>(s.state + dim * kStride + column) =
          make_float2(state[tile][c], state[tile][c + 1]);
    });
  }

  __device__ void Step(const Chunk& chunk) {
    const bool of_q = Warp() >= kRowTiles;
    const int above = 16 * (Warp() % kRowTiles) + Lane() / 4;
    float d[kTiles][4] = {};
    ReadState(chunk, of_q, above, d);
    bool finite = true;
    ForRows(above, [&](int tile, int c, int row, int column) {
      const float decay = row < chunk.rows ? chunk.decay_in[row] : 0.0f;
      float* const pair = &d[tile][c];
      if (of_q) {
        pair[0] *= decay, pair[1] *= decay;
        return;
      }
      float2 v = make_float2(0.0f, 0.0f);
      if (row < chunk.rows) {
        v = *reinterpret_cast<const float2*>(in.v + (chunk.row + row) * in.stride + first_column +
                                             column);
        v.x = fmaf(-decay, pair[0], v.x), v.y = fmaf(-decay, pair[1], v.y);
      }
      finite = finite && isfinite(v.x) && isfinite(v.y);
      *reinterpret_cast<float2*>(s.rests + row * kStride + column) = v;
    });
    const bool plain = __syncthreads_or(finite ? 0 : 1) != 0;
    finite = plain ? SolvePlain(chunk) : SolveTiles(chunk);
    const bool plain_out = __syncthreads_or(finite ? 0 : 1) != 0;
    if (of_q) WriteRows(chunk, above, d, plain_out);
    UpdateState(chunk);
    ShareState();
  }

  /// Calls visit(tile, c, row, column) for each pair of neighbours of a tile of rows.
  template <class Visit>
  __device__ void ForRows(int above, Visit&& visit) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; c += 2) visit(tile, c, above + 4 * c, 8 * tile + 2 * (Lane() % 4));
    }
  }

  /// d = S^T k or S^T q of the warp's rows.
  __device__ void ReadState(const Chunk& chunk, bool of_q, int above, float (&d)[kTiles][4]) {
    const float* const rows = (of_q ? in.q : in.k) + (chunk.row + above) * in.stride;
    constexpr int kAtOnce = kDim / 16 < 4 ? kDim / 16 : 4;
#pragma unroll
    for (int first = 0; first < kDim / 16; first += kAtOnce) {
      float4 upper[kAtOnce], lower[kAtOnce];  // all on their way before the first is used
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        upper[i] = ReadRow(rows, first + i, above < chunk.rows);
        lower[i] = ReadRow(rows + 8 * in.stride, first + i, above + 8 < chunk.rows);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const RowOperands operands(upper[i], lower[i]);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          RightSide::Multiply(d[tile], operands, s.state, first + i, tile);
        }
      }
    }
  }

  /// d += the lower triangle of `matrix` . right, for 16 rows from 16 `rows` on and tiles of
  /// columns from `first_tile` on.
  template <int kCount>
  __device__ static void MultiplyTriangle(float (&d)[kCount][4], const float* matrix, int rows,
                                          const float* right, int first_tile) {
    const float* const row = matrix + (16 * rows + Lane() / 4) * kChunk;
    float4 upper[kRowTiles], lower[kRowTiles];
#pragma unroll
    for (int step = 0; step < kRowTiles; ++step) {
      upper[step] = ReadRow(row, step, step <= rows);
      lower[step] = ReadRow(row + 8 * kChunk, step, step <= rows);
    }
#pragma unroll
    for (int step = 0; step < kRowTiles; ++step) {
      if (step > rows) break;
      const RowOperands operands(upper[step], lower[step]);
#pragma unroll
      for (int tile = 0; tile < kCount; ++tile) {
        RightSide::Multiply(d[tile], operands, right, step, first_tile + tile);
      }
    }
  }

  /// V = solve . rests; true when this lane's are finite. A warp takes half of the columns of a
  /// tile of rows.
  __device__ bool SolveTiles(const Chunk& chunk) {
    constexpr int kHalf = kTiles / 2;
    const int rows = Warp() % kRowTiles, half = Warp() / kRowTiles;
    const int above = 16 * rows + Lane() / 4;
    float d[kHalf][4] = {};
    MultiplyTriangle(d, chunk.solve, rows, s.rests, half * kHalf);
    bool finite = true;
#pragma unroll
    for (int tile = 0; tile < kHalf; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = above + 8 * (c / 2), column = 8 * (half * kHalf + tile) + 2 * (Lane() % 4);
        s.values[row * kStride + column + c % 2] = d[tile][c];
        finite = finite && isfinite(d[tile][c]);
      }
    }
    return finite;
  }
  __device__ bool SolvePlain(const Chunk& chunk) {
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns;
      float sum = 0.0f;
      for (int j = 0; j <= row; ++j) {
        sum = fmaf(chunk.solve[row * kChunk + j], s.rests[j * kStride + column], sum);
      }
      s.values[row * kStride + column] = sum;
    }
    return false;
  }

  /// out = d + weights . V, not normalised yet.
  __device__ void WriteRows(const Chunk& chunk, int above, float (&d)[kTiles][4], bool plain) {
    if (!plain) MultiplyTriangle(d, chunk.weights, Warp() % kRowTiles, s.values, 0);
    ForRows(above, [&](int tile, int c, int row, int column) {
      float* const pair = &d[tile][c];
      for (int j = 0; plain && j <= row; ++j) {
        const float weight = chunk.weights[row * kChunk + j];
        pair[0] = fmaf(weight, s.values[j * kStride + column], pair[0]);
        pair[1] = fmaf(weight, s.values[j * kStride + column + 1], pair[1]);
      }
      if (row >= chunk.rows) return;
      *reinterpret_cast<float2*>(a.out + ((chunk.row + row) * a.value_heads + head) * kDim +
                                 first_column + column) = make_float2(pair[0], pair[1]);
    });
  }

  /// S <- e^G_last S + sum_j D_last,j k_j V_j^T
  __device__ void UpdateState(const Chunk& chunk) {
    if (16 * Warp() >= kDim) return;
    const float decay = chunk.decay_in[chunk.rows - 1];
#pragma unroll
    for (auto& tile : state) {
#pragma unroll
      for (float& x : tile) x *= decay;
    }
    const float* const keys = in.k + chunk.row * in.stride + 16 * Warp() + Lane() / 4;
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      const int first = 16 * step + 4 * (Lane() % 4);
      float above[4], below[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool valid = first + i < chunk.rows;
        const float weight = valid ? chunk.decay_out[first + i] : 0.0f;
        above[i] = valid ? weight * keys[(first + i) * in.stride] : 0.0f;
        below[i] = valid ? weight * keys[(first + i) * in.stride + 8] : 0.0f;
      }
      const RowOperands operands(make_float4(above[0], above[1], above[2], above[3]),
                                 make_float4(below[0], below[1], below[2], below[3]));
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        RightSide::Multiply(state[tile], operands, s.values, step, tile);
      }
    }
  }
};

/// Thread blocks: x over columns, y over value heads, z over slices.
template <int kDim>
__device__ void Scan(const GdnArgs& args) {
  using Scan = ChunkScan<kDim>;
  __shared__ __align__(16) typename Scan::Shared shared;
  Scan(args, shared).Run();
}

/// out = norm * (o * rsqrt(mean(o^2) + eps)) * sigmoid(z) in place, a warp per row. Thread blocks:
/// x over chunks, y over value heads, z over slices.
template <int kDim>
__device__ void Normalize(const GdnArgs& a) {
  const GdnSliceRows slice = FindGdnSlice(a.slices, static_cast<int>(blockIdx.z));
  const int end = min(slice.count, kChunk * (static_cast<int>(blockIdx.x) + 1));
  if (slice.slot < 0) return;
  for (int i = kChunk * static_cast<int>(blockIdx.x) + Warp(); i < end; i += kThreads / 32) {
    const std::int64_t at =
        (static_cast<std::int64_t>(slice.begin + i) * a.value_heads + blockIdx.y) * kDim;
    float o[kDim / 32], squares = 0.0f;
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
      o[k] = a.out[at + Lane() + 32 * k];
      squares = fmaf(o[k], o[k], squares);
    }
    const float scale = rsqrtf(WarpSum(squares) / static_cast<float>(kDim) + a.eps);
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
      const int d = Lane() + 32 * k;
      a.out[at + d] = a.norm[d] * o[k] * scale * Sigmoid(a.z[at + d]);
    }
  }
}

}  // namespace

#define KV8_GDN_CHUNKS(dim)                                 \
  extern "C" __global__ void __launch_bounds__(kThreads, 2) \
      kv8_gdn_chunk_weigh_##dim(const GdnArgs args) {       \
    AfterEarlierKernels();                                  \
    Weigh<dim>(args);                                       \
  }                                                         \
  extern "C" __global__ void __launch_bounds__(kThreads, 2) \
      kv8_gdn_chunk_scan_##dim(const GdnArgs args) {        \
    AfterEarlierKernels();                                  \
    Scan<dim>(args);                                        \
  }                                                         \
  extern "C" __global__ void __launch_bounds__(kThreads)    \
      kv8_gdn_chunk_norm_##dim(const GdnArgs args) {        \
    AfterEarlierKernels();                                  \
    Normalize<dim>(args);                                   \
  }
KV8_GDN_CHUNKS(32)
KV8_GDN_CHUNKS(128)
#undef KV8_GDN_CHUNKS

}  // namespace kv8::cuda
