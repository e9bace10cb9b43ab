// Matrix products with weights as stored, many rows at a time. Contract: linear.h; the order of
// sums is that of product.cuh, so both give the same bits.
#include "ops/cuda/linear.h"
#include "ops/cuda/linear_block.cuh"
#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kStages = kLinearTileStages;
constexpr int kPieceVectors = kProductPiece * 2 / 16;  // 16 bytes each, of one weight row
constexpr int kXVectors = kProductPiece * 4 / 16;      // of one activation row
// Each thread copies one vector of both per piece, and turns it into what the products take.
static_assert(kLinearTileRows * kPieceVectors == kThreads);
static_assert(kLinearTileColumns * kXVectors == kThreads);

/// A block's tile is kLinearTileRows weight rows by kLinearTileColumns activation rows; a warp has
/// 32 by 16 of it. Pieces that are there or under way: lane 4 g + t of a product reads vector t of
/// eight neighbouring weight rows, and vectors 2 t and 2 t + 1 of activation rows, where odd rows
/// have their vectors in other order: no bank meets another.
struct TileShared {
  uint4 weights[kStages][kThreads];  // as stored, then as FP16
  uint4 x[kStages][kThreads];        // four FP32, then their upper and their lower parts
};
static_assert(sizeof(TileShared) == kLinearTileSharedBytes);

template <WeightType kType>
struct Tile {
  static constexpr int kTiles = 2, kColumns = 2;
  static constexpr int kWarpsAcross = kLinearTileColumns / (8 * kColumns);

  const LinearArgs& a;
  TileShared& s;
  LinearBlock block;
  int first;   // activation row
  int pieces;  // of this split
  // What this thread copies next: of rows that are not there, others, not valid.
  const std::uint16_t* weights;
  const float* x;
  bool weights_valid, x_valid;
  int x_place;  // where it goes
  float sums[kProductShares][kTiles][kColumns][4] = {};

  __device__ Tile(const LinearArgs& args, TileShared& shared)
      : a(args),
        s(shared),
        block(FindLinearBlock(args, kLinearTileRows)),
        first(static_cast<int>(blockIdx.y) * kLinearTileColumns) {
    const WeightArray& weight = a.outputs[block.part].weight;
    const int thread = static_cast<int>(threadIdx.x), inner = a.inner / a.splits;
    const int begin = static_cast<int>(blockIdx.z) * inner;
    pieces = inner / kProductPiece;
    const int row = block.first_row + thread / kPieceVectors;
    weights_valid = row < weight.rows;
    weights = weight.data + static_cast<std::int64_t>(min(row, weight.rows - 1)) * a.inner + begin +
              thread % kPieceVectors * 8;
    const int x_row = thread / kXVectors;
    x_valid = first + x_row < a.rows;
    x = a.x + min(first + x_row, a.rows - 1) * a.x_stride + begin + thread % kXVectors * 4;
    x_place = XPlace(x_row, thread % kXVectors);
  }

  __device__ void Run() {
#pragma unroll
    for (int piece = 0; piece < kStages; ++piece) Start(piece);
    Convert(0);
    __syncthreads();
    for (int base = 0; base < pieces; base += kProductShares) {
#pragma unroll
      for (int share = 0; share < kProductShares; ++share) {
        const int piece = base + share;
        if (piece >= pieces) break;
        Convert(piece + 1);
        Multiply(piece, sums[share]);
        __syncthreads();  // the next piece is there, and nobody reads this one any more
        Start(piece + kStages);
      }
    }
    Store();
  }

 private:
  __device__ static __forceinline__ int XPlace(int row, int vector) {
    return row * kXVectors + (vector ^ (row & 1));
  }

  __device__ __forceinline__ void Start(int piece) {
    if (piece < pieces) {
      CopyToShared16(s.weights[piece % kStages] + threadIdx.x,
                     reinterpret_cast<const unsigned char*>(weights), weights_valid);
      CopyToShared16(s.x[piece % kStages] + x_place, reinterpret_cast<const unsigned char*>(x),
                     x_valid);
      weights += kProductPiece;
      x += kProductPiece;
    }
    CommitCopies();
  }

  /// What this thread has copied of a piece; a sync away from being everybody's.
  __device__ __forceinline__ void Convert(int piece) {
    WaitForCopies<kStages - 2>();
    if (piece >= pieces) return;
    uint4& values = s.x[piece % kStages][x_place];
    const uint4 v = values;
    const SplitActivations split(make_float4(__uint_as_float(v.x), __uint_as_float(v.y),
                                             __uint_as_float(v.z), __uint_as_float(v.w)));
    values = make_uint4(split.high.x, split.high.y, split.low.x, split.low.y);
    if constexpr (kType != WeightType::kFp16) {
      uint4& stored = s.weights[piece % kStages][threadIdx.x];
      const uint4 w = stored;
      stored = make_uint4(WeightPair<kType>(w.x), WeightPair<kType>(w.y), WeightPair<kType>(w.z),
                          WeightPair<kType>(w.w));
    }
  }

  __device__ __forceinline__ int WeightRow() const {
    return Warp() / kWarpsAcross * 16 * kTiles + Lane() / 4;
  }
  __device__ __forceinline__ int FirstColumn() const {
    return Warp() % kWarpsAcross * 8 * kColumns;
  }

  __device__ __forceinline__ void Multiply(int piece, float (&d)[kTiles][kColumns][4]) {
    const int t = Lane() % 4;
    const uint4* const rows = s.weights[piece % kStages] + WeightRow() * kPieceVectors + t;
    uint4 above[kTiles], below[kTiles], values[kColumns][2];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      above[m] = rows[16 * m * kPieceVectors], below[m] = rows[(16 * m + 8) * kPieceVectors];
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        values[c][step] =
            s.x[piece % kStages][XPlace(FirstColumn() + 8 * c + Lane() / 4, 2 * t + step)];
      }
    }
    // All upper parts before the lower ones: no product waits for the one before it.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          unsigned fragment[4];
          WeightFragment<WeightType::kFp16>(fragment, above[m], below[m], step);
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const uint4& v = values[c][step];
            MmaFp16(d[m][c], fragment, part == 0 ? v.x : v.z, part == 0 ? v.y : v.w);
          }
        }
      }
    }
  }

  __device__ void Store() const {
    const LinearOutput& output = a.outputs[block.part];
    float* const out = output.out + static_cast<std::int64_t>(blockIdx.z) * a.rows * output.stride;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float sum = 0.0f;
#pragma unroll
          for (int share = 0; share < kProductShares; ++share) sum += sums[share][m][c][i];
          const int row = block.first_row + WeightRow() + 16 * m + 8 * (i / 2);
          const int column = first + FirstColumn() + 8 * c + 2 * (Lane() % 4) + i % 2;
          if (row < output.weight.rows && column < a.rows) out[column * output.stride + row] = sum;
        }
      }
    }
  }
};

/// Blocks: x over kLinearTileRows weight rows of all outputs, y over activation rows, z over
/// splits.
template <WeightType kType>
__device__ void LinearTiles(const LinearArgs& args) {
  extern __shared__ __align__(16) unsigned char shared[];
  Tile<kType>(args, *reinterpret_cast<TileShared*>(shared)).Run();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    kv8_linear_tiles_bf16(const LinearArgs args) {
  LinearTiles<WeightType::kBf16>(args);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    kv8_linear_tiles_fp16(const LinearArgs args) {
  LinearTiles<WeightType::kFp16>(args);
}

}  // namespace kv8::cuda
