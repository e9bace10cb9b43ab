// Tiles of products by mma: eight warps, four over weight rows and two over activation rows.
// Included by product_tiles.cuh.
#pragma once

namespace kv8::cuda {

/// kColumns activation rows of a tile; a warp has 32 weight rows by half of them.
template <WeightFormat kFormat, int kColumns, int kParts>
class MmaTile {
 public:
  static constexpr int kTiles = 2, kAcross = kColumns / 16;  // products of 16 by 8

  template <class P>
  __device__ static __forceinline__ void Run(const P& product, const TileRing& ring) {
    TileCopier<kMmaTileThreads, kColumns, kParts> copier(product, ring, kColumns,
                                                         static_cast<int>(threadIdx.x));
    const int stages = ring.shape.stages, inner = product.inner();
    for (int step = 0; step < stages - 1; ++step) Start(copier, ring, step, step, inner);
    float sums[kTiles][4 * kAcross] = {};
    int stage = 0, filled = stages - 1;
    for (int k = 0; k < inner; k += kProductStage) {
      if (stages > 2) {
        WaitForCopies<1>();
      } else {
        WaitForCopies<0>();
      }
      __syncthreads();  // this stage is there, and the one before has been read
      Start(copier, ring, k / kProductStage + stages - 1, filled, inner);
      Multiply(ring, stage, sums);
      stage = stage + 1 == stages ? 0 : stage + 1;
      filled = filled + 1 == stages ? 0 : filled + 1;
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      StoreTile<kAcross>(product, kTiles * (Warp() / 2) + m, FirstColumn(), sums[m]);
    }
  }

 private:
  static constexpr int kUnroll =
      __CUDA_ARCH__ >= 750 ? 2 : 1;  // products are many instructions there

  __device__ static __forceinline__ int FirstColumn() {
    return Warp() % 2 * (kColumns / 2);
  }

  __device__ static __forceinline__ float (&Sums(float (&sums)[4 * kAcross], int c))[4] {
    return *reinterpret_cast<float(*)[4]>(sums + 4 * c);
  }

  template <class Copier>
  __device__ static __forceinline__ void Start(Copier& copier, const TileRing& ring, int step,
                                               int stage, int inner) {
    if (step * kProductStage < inner) copier.Copy(ring, stage, step * kProductStage);
    CommitCopies();
  }

  /// Operands b of block `block` of a stage for two products side by side.
  __device__ static __forceinline__ void Columns(const unsigned char* x, int column, int block,
                                                 unsigned (&b)[4]) {
#if __CUDA_ARCH__ >= 750
    const int matrix = Lane() / 8, row = column + 8 * (matrix / 2) + Lane() % 8;
    LoadMatrices(b, SharedAddress(x + row * 2 * kProductStage +
                                  16 * ((2 * block + matrix % 2) ^ (row & 7))));
#else
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = column + 8 * (i / 2) + Lane() / 4;
      b[i] = *reinterpret_cast<const unsigned*>(
          x + row * 2 * kProductStage + 16 * ((2 * block + i % 2) ^ (row & 7)) + 4 * (Lane() % 4));
    }
#endif
  }

  __device__ static __forceinline__ void Multiply(const TileRing& ring, int stage,
                                                  float (&sums)[kTiles][4 * kAcross]) {
    const uint4* const weights = reinterpret_cast<const uint4*>(ring.Weights(stage));
    const int g = Lane() / 4, t = Lane() % 4, first_row = 16 * kTiles * (Warp() / 2);
#pragma unroll kUnroll
    for (int piece = 0; piece < 2; ++piece) {
      uint4 above[kTiles], below[kTiles];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        const int row = first_row + 16 * m + g;
        above[m] = weights[StagePlace(row, 4 * piece + t)];
        below[m] = weights[StagePlace(row + 8, 4 * piece + t)];
      }
#pragma unroll kUnroll
      for (int block = 0; block < 2; ++block) {
        unsigned fragments[kTiles][4];
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          WeightFragment<kFormat>(fragments[m], above[m], below[m], block);
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const unsigned char* const x = ring.Activations(stage) + part * ring.PartBytes();
#pragma unroll
          for (int c = 0; c < kAcross; c += 2) {
            unsigned b[4];
            Columns(x, FirstColumn() + 8 * c, 2 * piece + block, b);
#pragma unroll
            for (int m = 0; m < kTiles; ++m) {
              MmaFp16(Sums(sums[m], c), fragments[m], b[0], b[1]);
              MmaFp16(Sums(sums[m], c + 1), fragments[m], b[2], b[3]);
            }
          }
        }
      }
    }
  }
};

template <WeightFormat kFormat, int kParts, class P, int kForm, int... kWider>
__device__ __forceinline__ void MultiplyTile(const P& product, const TileRing& ring,
                                             Forms<kForm, kWider...>) {
  if constexpr (sizeof...(kWider) > 0) {
    if (product.columns() > kForm) {
      return MultiplyTile<kFormat, kParts>(product, ring, Forms<kWider...>());
    }
  }
  MmaTile<kFormat, kForm, kParts>::Run(product, ring);
}

template <WeightFormat kFormat, int kParts, class F, class T>
__device__ __forceinline__ void StartTiles(const T& tiles, const TileRing& ring, F forms) {
  for (int i = static_cast<int>(blockIdx.x); i < tiles.count(); i += static_cast<int>(gridDim.x)) {
    const auto product = tiles.At(i);
    if (product.columns() == 0) continue;
    MultiplyTile<kFormat, kParts>(product, ring, forms);
    WaitForCopies<0>();
    __syncthreads();  // the stages have been read
  }
}

}  // namespace kv8::cuda
