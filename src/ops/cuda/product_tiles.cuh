// Products of many rows of activations: a tile is kTileRows weight rows by up to 256 rows of
// activations, both of which go through shared memory. Thread blocks are as many as there is room
// for and take one tile after another.
//
// A tile is a product of product.cuh with
//   int columns()          activation rows that are there; 0: nothing to do
//   int inner()            values of a row
//   std::int64_t plane()   from an activation's upper part to its lower one
// and a list of tiles T has count() and At(index).
//
// sm_90 has its own form: one warpgroup copies, two multiply with wgmma, weights from registers
// (product_wgmma.cuh). All others: eight warps copy and multiply.
#pragma once

#include "ops/cuda/product.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KV8_WGMMA 1
#else
#define KV8_WGMMA 0
#endif

namespace kv8::cuda {

/// By how many activation rows a kernel multiplies at a time, ascending. wgmma's sums of all in one
/// kernel would not find room in a thread's registers, so there are narrow and wide kernels.
template <int... kColumns>
struct Forms {};
#if KV8_WGMMA
using NarrowForms = Forms<16, 32, 64>;
using WideLinearForms = Forms<128, 256>;
using WideExpertForms = Forms<64, 128, 192>;
#else
using NarrowForms = Forms<32, 64>;
using WideLinearForms = Forms<128>;
using WideExpertForms = Forms<64, 128>;
#endif
/// Whether a tile of two parts of activations has such a form.
template <int kParts, int kColumns>
inline constexpr bool kHasForm = kParts == 1 || kColumns <= kMmaTileColumns;

inline constexpr int kTileThreads = KV8_WGMMA ? kWgmmaTileThreads : kMmaTileThreads;

/// The dynamic shared memory: stages of a tile's weight rows and then of the activations' parts,
/// each row 128 bytes.
struct TileRing {
  static constexpr int kWeightBytes = kTileRows * 2 * kProductStage;

  unsigned char* base;
  TileShape shape;
  int parts;

  __device__ TileRing(unsigned char* shared, const TileShape& of, int part_count)
      : base(shared + (-SharedAddress(shared) & (kTileAlignment - 1))),
        shape(of),
        parts(part_count) {}
  __device__ __forceinline__ int PartBytes() const { return shape.columns * 2 * kProductStage; }
  __device__ __forceinline__ unsigned char* Weights(int stage) const {
    return base + stage * (kWeightBytes + parts * PartBytes());
  }
  __device__ __forceinline__ unsigned char* Activations(int stage) const {
    return Weights(stage) + kWeightBytes;
  }
};

/// What one of kCopiers threads copies of each stage: vector `thread` % 8 of every (kCopiers /
/// 8)-th row. Columns without a row get another row's values: their sums are not stored.
template <int kCopiers, int kMaxColumns, int kParts>
class TileCopier {
 public:
  /// Copies `columns` activation rows, a multiple of kRowsAtOnce.
  template <class P>
  __device__ __forceinline__ TileCopier(const P& product, const TileRing& ring, int columns,
                                        int thread)
      : vector_(thread % kStageVectors),
        last_(product.inner() - kProductStage),
        copies_(columns / kRowsAtOnce) {
    const int first = thread / kStageVectors;
    const std::uint16_t* const weights = product.WeightRow(first);
    weights_ = Bytes(weights);
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      weight_offsets_[i] = Vectors(weights, product.WeightRow(first + kRowsAtOnce * i));
    }
    const std::uint16_t* const rows = product.RoundedRow(0);
    activations_[0] = Bytes(rows);
    if constexpr (kParts == 2) activations_[1] = Bytes(rows + product.plane());
#pragma unroll
    for (int i = 0; i < kColumnCopies; ++i) {
      if (i >= copies_) break;
      const std::uint16_t* const row = product.RoundedRow(first + kRowsAtOnce * i);
      offsets_[i] = row == nullptr ? 0 : Vectors(rows, row);
    }
    to_weights_ = 16 * StagePlace(first, vector_);
    to_activations_ =
        TileRing::kWeightBytes + 16 * (first * kStageVectors + (vector_ ^ (first & 7)));
    part_bytes_ = ring.PartBytes();
  }

  /// The stage that begins with value k, each after the one before.
  __device__ __forceinline__ void Copy(const TileRing& ring, int stage, int k) {
    const unsigned to = SharedAddress(ring.Weights(stage));
    if (k > last_ && 8 * vector_ >= last_ + kProductStage - k) {
      CopyAll(to, [](unsigned at, const unsigned char* from) { ZeroShared16(at, from); });
    } else {
      CopyAll(to, [](unsigned at, const unsigned char* from) { CopyToShared16(at, from); });
    }
  }

 private:
  static constexpr int kRowsAtOnce = kCopiers / kStageVectors;
  static constexpr int kWeightCopies = kTileRows / kRowsAtOnce;
  static constexpr int kColumnCopies = kMaxColumns / kRowsAtOnce;
  static constexpr int kStageBytes = 2 * kProductStage;
  static_assert(kRowsAtOnce % 8 == 0);  // rows that one thread copies are turned alike

  __device__ __forceinline__ const unsigned char* Bytes(const std::uint16_t* row) const {
    return reinterpret_cast<const unsigned char*>(row) + 16 * vector_;
  }

  __device__ static __forceinline__ int Vectors(const std::uint16_t* from,
                                                const std::uint16_t* to) {
    return static_cast<int>((to - from) / 8);
  }

  template <class F>
  __device__ __forceinline__ void CopyAll(unsigned stage, F&& copy) {
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      copy(stage + to_weights_ + i * kRowsAtOnce * kStageBytes,
           weights_ + std::int64_t{16} * weight_offsets_[i]);
    }
    weights_ += kStageBytes;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kColumnCopies; ++i) {
        if (i >= copies_) break;
        copy(stage + to_activations_ + part * part_bytes_ + i * kRowsAtOnce * kStageBytes,
             activations_[part] + std::int64_t{16} * offsets_[i]);
      }
      activations_[part] += kStageBytes;
    }
  }

  const int vector_, last_, copies_;  // last_: where the last whole stage begins
  unsigned to_weights_, to_activations_, part_bytes_;
  const unsigned char* weights_;                                // of this thread's first row
  const unsigned char* activations_[kParts];                    // of row 0
  int weight_offsets_[kWeightCopies], offsets_[kColumnCopies];  // from there, in vectors
};

/// Hands a warp's 16 weight rows of kAcross times 8 columns to the product, as many at a time as it
/// likes: P::kAtOnce.
template <int kAcross, class P>
__device__ __forceinline__ void StoreTile(const P& product, int tile, int first_column,
                                          const float (&sums)[4 * kAcross]) {
  constexpr int kAtOnce = P::kAtOnce < kAcross ? P::kAtOnce : kAcross;
  static_assert(kAcross % kAtOnce == 0);
#pragma unroll
  for (int c = 0; c < kAcross; c += kAtOnce) {
    product.template Store<kAtOnce>(tile, first_column + 8 * c + 2 * (Lane() % 4), sums + 4 * c);
  }
}

}  // namespace kv8::cuda

#if KV8_WGMMA
#include "ops/cuda/product_wgmma.cuh"
#else
#include "ops/cuda/product_mma.cuh"
#endif

namespace kv8::cuda {

/// Multiplies all tiles, each by the first of the forms that has enough columns.
template <WeightFormat kFormat, class F, class T>
__device__ __forceinline__ void MultiplyTiles(const T& tiles, const TileRing& ring) {
  if (ring.parts == 1) {
    StartTiles<kFormat, 1>(tiles, ring, F());
  } else {
    StartTiles<kFormat, 2>(tiles, ring, F());
  }
}

}  // namespace kv8::cuda
