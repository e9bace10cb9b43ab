// Matrix products with weights as stored, many rows at a time. Contract: linear.h; the order of
// sums is that of product.cuh, so both give the same bits.
#include "ops/cuda/linear.h"
#include "ops/cuda/linear_rows.cuh"
#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kStages = kLinearTileStages;
constexpr int kPieceVectors = kProductPiece * 2 / 16;  // 16 bytes each, of one weight row
constexpr int kXVectors = kProductPiece * 4 / 16;      // of one activation row

/// A thread block's tile is kLinearTileRows weight rows by kLinearTileColumns activation rows; a
/// warp has 32 by 32 of it. Pieces that are there or under way: lane 4 g + t of a product reads
/// vector t of eight neighbouring weight rows, and vectors 2 t and 2 t + 1 of activation rows,
/// where odd rows have their vectors in other order: no bank meets another.
struct TileShared {
  uint4 weights[kStages][kLinearTileRows * kPieceVectors];
  float4 x[kStages][kLinearTileColumns * kXVectors];
};
static_assert(sizeof(TileShared) == kLinearTileSharedBytes);

/// Goes through the pieces share by share, so that one share's sums are in registers at a time.
template <WeightFormat kFormat>
struct Tile {
  static constexpr int kTiles = 2, kColumns = 4;
  static constexpr int kWarpsAcross = kLinearTileColumns / (8 * kColumns);
  static constexpr int kWeightCopies = kLinearTileRows * kPieceVectors / kThreads;
  static constexpr int kXCopies = kLinearTileColumns * kXVectors / kThreads;

  const LinearArgs& a;
  TileShared& s;
  LinearRows mine;
  int first;   // activation row
  int pieces;  // of this split
  // What this thread copies of a piece: of rows that are not there, others, not `valid`.
  const std::uint16_t* weights[kWeightCopies];
  const float* rows[kXCopies];
  unsigned valid = 0;                      // bit i: weights[i]; bit kWeightCopies + i: rows[i]
  int copied = 0;                          // the piece that is copied next
  float sums[kTiles][kColumns][4] = {};    // of the share so far
  float totals[kTiles][kColumns][4] = {};  // of the shares before

  __device__ Tile(const LinearArgs& args, TileShared& shared)
      : a(args),
        s(shared),
        mine(FindLinearRows(args, kLinearTileRows)),
        first(static_cast<int>(blockIdx.y) * kLinearTileColumns),
        pieces(args.inner / args.splits / kProductPiece) {
    const Weight& weight = a.outputs[mine.part].weight;
    const int weight_rows = static_cast<int>(weight.rows);
    const int begin = static_cast<int>(blockIdx.z) * pieces * kProductPiece;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      const int vector = static_cast<int>(threadIdx.x) + kThreads * i;
      const int row = mine.first_row + vector / kPieceVectors;
      valid |= row < weight_rows ? 1u << i : 0u;
      weights[i] = Codes16(weight) +
                   static_cast<std::int64_t>(min(row, weight_rows - 1)) * a.inner + begin +
                   vector % kPieceVectors * 8;
    }
#pragma unroll
    for (int i = 0; i < kXCopies; ++i) {
      const int vector = static_cast<int>(threadIdx.x) + kThreads * i;
      const int row = first + vector / kXVectors;
      valid |= row < a.rows ? 1u << (kWeightCopies + i) : 0u;
      rows[i] = a.x + min(row, a.rows - 1) * a.x_stride + begin + vector % kXVectors * 4;
    }
  }

  __device__ void Run() {
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) Start(step);
    int piece = 0;
    for (int step = 0; step < pieces; ++step) {
      WaitForCopies<kStages - 2>();
      __syncthreads();  // this piece is there, and the one before has been read
      Start(step + kStages - 1);
      Multiply(step % kStages);
      if (piece + kProductShares >= pieces) EndShare();
      piece = After(piece);
    }
    Store();
  }

 private:
  /// The next piece of the share, or the first of the next share.
  __device__ __forceinline__ int After(int piece) const {
    return piece + kProductShares < pieces ? piece + kProductShares : piece % kProductShares + 1;
  }
  __device__ static __forceinline__ int XPlace(int row, int vector) {
    return row * kXVectors + (vector ^ (row & 1));
  }

  __device__ __forceinline__ void Start(int step) {
    if (step < pieces) {
      const int stage = step % kStages, k = copied * kProductPiece;
#pragma unroll
      for (int i = 0; i < kWeightCopies; ++i) {
        CopyToShared16(s.weights[stage] + threadIdx.x + kThreads * i,
                       reinterpret_cast<const unsigned char*>(weights[i] + k),
                       (valid >> i & 1u) != 0u);
      }
#pragma unroll
      for (int i = 0; i < kXCopies; ++i) {
        const int vector = static_cast<int>(threadIdx.x) + kThreads * i;
        CopyToShared16(s.x[stage] + XPlace(vector / kXVectors, vector % kXVectors),
                       reinterpret_cast<const unsigned char*>(rows[i] + k),
                       (valid >> (kWeightCopies + i) & 1u) != 0u);
      }
      copied = After(copied);
    }
    CommitCopies();
  }

  __device__ __forceinline__ int WeightRow() const {
    return Warp() / kWarpsAcross * 16 * kTiles + Lane() / 4;
  }
  __device__ __forceinline__ int FirstColumn() const {
    return Warp() % kWarpsAcross * 8 * kColumns;
  }

  /// sums += the products of one piece.
  __device__ __forceinline__ void Multiply(int stage) {
    const int t = Lane() % 4;
    uint4 above[kTiles], below[kTiles];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const uint4* const from = s.weights[stage] + (WeightRow() + 16 * m) * kPieceVectors;
      above[m] = from[t], below[m] = from[8 * kPieceVectors + t];
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      unsigned fragments[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        WeightFragment<kFormat>(fragments[m], above[m], below[m], step);
      }
      uint2 high[kColumns], low[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const SplitActivations x(
            s.x[stage][XPlace(FirstColumn() + 8 * c + Lane() / 4, 2 * t + step)]);
        high[c] = x.high, low[c] = x.low;
      }
      // All upper parts before the lower ones: no product waits for the one before it.
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m) MmaFp16(sums[m][c], fragments[m], high[c].x, high[c].y);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m) MmaFp16(sums[m][c], fragments[m], low[c].x, low[c].y);
      }
    }
  }

  __device__ __forceinline__ void EndShare() {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) totals[m][c][i] += sums[m][c][i], sums[m][c][i] = 0.0f;
      }
    }
  }

  __device__ void Store() const {
    const LinearOutput& output = a.outputs[mine.part];
    float* const out = output.out + static_cast<std::int64_t>(blockIdx.z) * a.rows * output.stride;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = mine.first_row + WeightRow() + 16 * m + 8 * (i / 2);
          const int column = first + FirstColumn() + 8 * c + 2 * (Lane() % 4) + i % 2;
          if (row < static_cast<int>(output.weight.rows) && column < a.rows) {
            out[column * output.stride + row] = totals[m][c][i];
          }
        }
      }
    }
  }
};

/// Thread blocks: x over kLinearTileRows weight rows of all outputs, y over activation rows, z over
/// splits.
template <WeightFormat kFormat>
__device__ void LinearTiles(const LinearArgs& args) {
  extern __shared__ __align__(16) unsigned char shared[];
  AfterEarlierKernels();
  Tile<kFormat>(args, *reinterpret_cast<TileShared*>(shared)).Run();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    kv8_linear_tiles_bf16(const LinearArgs args) {
  LinearTiles<WeightFormat::kBf16>(args);
}
extern "C" __global__ void __launch_bounds__(kThreads, 2)
    kv8_linear_tiles_fp16(const LinearArgs args) {
  LinearTiles<WeightFormat::kFp16>(args);
}

}  // namespace kv8::cuda
