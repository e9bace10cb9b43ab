// Tiles of products by wgmma: a warpgroup copies, two multiply 64 weight rows each with all
// activation rows of the tile. Weights go through registers, where they become FP16. Included by
// product_tiles.cuh.
#pragma once

namespace kv8::cuda {

// ---- barriers in shared memory ----------------------------------------------------------------

__device__ __forceinline__ void InitBarrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void Arrive(unsigned barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
               :
               : "r"(barrier)
               : "memory");
}
/// Arrives when this thread's copies so far are done.
__device__ __forceinline__ void ArriveWithCopies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(barrier) : "memory");
}
/// Waits until the barrier's phase `parity` has ended.
__device__ __forceinline__ void WaitForBarrier(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
}

// ---- wgmma ------------------------------------------------------------------------------------

/// How the matrix units find activation rows of 128 bytes in shared memory whose vectors of 16
/// bytes are turned by the row's number, eight rows in 1024 bytes.
__device__ __forceinline__ std::uint64_t RowsDescriptor(const unsigned char* rows) {
  constexpr std::uint64_t kTurnedBy128 = 1ull << 62, kEightRows = 1024ull / 16 << 32;
  return kTurnedBy128 | kEightRows | 1ull << 16 | (SharedAddress(rows) & 0x3FFFF) >> 4;
}

__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kLater groups are under way.
template <int kLater>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kLater) : "memory");
}

/// Starts d += a . b for a warpgroup's 64 weight rows, kColumns activation rows and a block of 16;
/// a warp has 16 of the weight rows, laid out as in MmaFp16, and so is d for each 8 columns.
template <int kColumns>
__device__ __forceinline__ void Wgmma(float (&d)[kColumns / 2], const unsigned* a,
                                      std::uint64_t columns);

#define KV8_D8(i)                                                                             \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define KV8_D32(i) KV8_D8(i), KV8_D8(i + 8), KV8_D8(i + 16), KV8_D8(i + 24)
#define KV8_WGMMA_COLUMNS(columns, names, operands, a0, a1, a2, a3, b)                          \
  template <>                                                                                   \
  __device__ __forceinline__ void Wgmma<columns>(float(&d)[columns / 2], const unsigned* a,     \
                                                 std::uint64_t rows) {                          \
    asm volatile(                                                                               \
        "{ .reg .pred add; setp.ne.b32 add, 1, 0; "                                             \
        "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16 {" names "}, {" a0 "," a1 \
        "," a2 "," a3 "}, " b ", add, 1, 1, 0; }"                                               \
        : operands                                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows));                               \
  }
#define KV8_NAMES_0                                       \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15" \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KV8_NAMES_32                                                \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KV8_NAMES_64                                                \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define KV8_NAMES_96                                                            \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define KV8_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define KV8_NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define KV8_COMMA ,
KV8_WGMMA_COLUMNS(16, KV8_NAMES_8, KV8_D8(0), "%8", "%9", "%10", "%11", "%12")
KV8_WGMMA_COLUMNS(32, KV8_NAMES_16, KV8_D8(0) KV8_COMMA KV8_D8(8), "%16", "%17", "%18", "%19",
                  "%20")
KV8_WGMMA_COLUMNS(64, KV8_NAMES_0, KV8_D32(0), "%32", "%33", "%34", "%35", "%36")
KV8_WGMMA_COLUMNS(128, KV8_NAMES_0 "," KV8_NAMES_32, KV8_D32(0) KV8_COMMA KV8_D32(32), "%64", "%65",
                  "%66", "%67", "%68")
KV8_WGMMA_COLUMNS(192, KV8_NAMES_0 "," KV8_NAMES_32 "," KV8_NAMES_64,
                  KV8_D32(0) KV8_COMMA KV8_D32(32) KV8_COMMA KV8_D32(64), "%96", "%97", "%98",
                  "%99", "%100")
KV8_WGMMA_COLUMNS(256, KV8_NAMES_0 "," KV8_NAMES_32 "," KV8_NAMES_64 "," KV8_NAMES_96,
                  KV8_D32(0) KV8_COMMA KV8_D32(32) KV8_COMMA KV8_D32(64) KV8_COMMA KV8_D32(96),
                  "%128", "%129", "%130", "%131", "%132")
#undef KV8_WGMMA_COLUMNS
#undef KV8_COMMA
#undef KV8_NAMES_0
#undef KV8_NAMES_8
#undef KV8_NAMES_16
#undef KV8_NAMES_32
#undef KV8_NAMES_64
#undef KV8_NAMES_96
#undef KV8_D32
#undef KV8_D8

// ---- tiles ------------------------------------------------------------------------------------

constexpr int kCopiers = 128, kMultiplyingWarps = 8;

/// Barriers of a ring: a stage has been copied; it has been read.
struct RingBarriers {
  std::uint64_t full[kMaxTileStages], empty[kMaxTileStages];
};

/// A place in the ring and how often it has been passed.
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void Advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1u;
  }
};

/// What one of the two warpgroups does that multiply.
template <WeightFormat kFormat, int kColumns, int kParts>
class WgmmaTile {
 public:
  /// `place` is that of the tile's first stage, then of the next tile's.
  template <class P>
  __device__ static __forceinline__ void Run(const P& product, const TileRing& ring,
                                             RingBarriers& barriers, RingPlace& place) {
    WgmmaTile tile(ring, barriers, place);
    const int steps = (product.inner() + kProductStage - 1) / kProductStage;
    tile.Load(tile.fragments_[0]);
    for (int step = 0; step < steps; step += 2) {
      tile.Step(tile.fragments_[0], tile.fragments_[1], step > 0, step + 1 < steps);
      if (step + 1 < steps) {
        tile.Step(tile.fragments_[1], tile.fragments_[0], true, step + 2 < steps);
      }
    }
    WgmmaWait<0>();
    tile.Release();
    place = tile.loaded_;
#pragma unroll
    for (float& sum : tile.sums_) asm volatile("" : "+f"(sum));  // is not read before
    StoreTile<kColumns / 8>(product, tile.warp_, 0, tile.sums_);
  }

 private:
  static constexpr int kBlocks = kProductStage / 16;

  __device__ __forceinline__ WgmmaTile(const TileRing& ring, RingBarriers& barriers,
                                       const RingPlace& place)
      : ring_(ring),
        full_(SharedAddress(barriers.full)),
        empty_(SharedAddress(barriers.empty)),
        warp_(Warp() - kCopiers / 32),
        loaded_(place),
        multiplied_(place),
        released_(place) {}

  /// Products of a stage, then the next stage's weights.
  __device__ __forceinline__ void Step(const unsigned (&now)[4 * kBlocks],
                                       unsigned (&next)[4 * kBlocks], bool release, bool load) {
    const unsigned char* const rows = ring_.Activations(multiplied_.stage);
    const std::uint64_t high = RowsDescriptor(rows);
    WgmmaFence();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      Wgmma<kColumns>(sums_, now + 4 * block, high + 2 * block);  // 32 bytes further
      if constexpr (kParts == 2) {
        Wgmma<kColumns>(sums_, now + 4 * block,
                        RowsDescriptor(rows + ring_.PartBytes()) + 2 * block);
      }
    }
    WgmmaCommit();
    multiplied_.Advance(ring_.shape.stages);
    WgmmaWait<1>();  // the products of the stage before: their weights' registers are free
    if (release) Release();
    if (load) Load(next);
  }

  __device__ __forceinline__ void Release() {
    if (Lane() == 0) Arrive(empty_ + 8 * released_.stage);
    released_.Advance(ring_.shape.stages);
  }

  /// The weights of the next stage, which has the activations too.
  __device__ __forceinline__ void Load(unsigned (&fragments)[4 * kBlocks]) {
    WaitForBarrier(full_ + 8 * loaded_.stage, loaded_.parity);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies are another proxy's
    const uint4* const weights = reinterpret_cast<const uint4*>(ring_.Weights(loaded_.stage));
    const int row = 16 * warp_ + Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      const uint4 above = weights[StagePlace(row, 4 * piece + t)];
      const uint4 below = weights[StagePlace(row + 8, 4 * piece + t)];
      WeightFragment<kFormat>(fragments + 8 * piece, above, below, 0);
      WeightFragment<kFormat>(fragments + 8 * piece + 4, above, below, 1);
    }
    loaded_.Advance(ring_.shape.stages);
  }

  const TileRing& ring_;
  const unsigned full_, empty_;
  const int warp_;  // among those that multiply
  RingPlace loaded_, multiplied_, released_;
  unsigned fragments_[2][4 * kBlocks];
  float sums_[kColumns / 2] = {};
};

/// The columns of the first form that has enough.
template <int kParts, int kForm, int... kWider>
__device__ __forceinline__ int FormColumns(int columns, Forms<kForm, kWider...>) {
  if constexpr (sizeof...(kWider) > 0) {
    if (columns > kForm) return FormColumns<kParts>(columns, Forms<kWider...>());
  }
  return kForm;
}

/// Runs ahead of those that multiply by as much as the ring holds, into the next tile.
template <int kParts, class F, class T>
__device__ __forceinline__ void CopyTiles(const T& tiles, const TileRing& ring,
                                          RingBarriers& barriers, F forms) {
  constexpr int kMost = kParts == 1 ? kWgmmaTileColumns : kMmaTileColumns;
  const unsigned full = SharedAddress(barriers.full), empty = SharedAddress(barriers.empty);
  RingPlace place;
  for (int i = static_cast<int>(blockIdx.x); i < tiles.count(); i += static_cast<int>(gridDim.x)) {
    const auto product = tiles.At(i);
    if (product.columns() == 0) continue;
    TileCopier<kCopiers, kMost, kParts> copier(product, ring,
                                               FormColumns<kParts>(product.columns(), forms),
                                               static_cast<int>(threadIdx.x));
    for (int k = 0; k < product.inner(); k += kProductStage) {
      WaitForBarrier(empty + 8 * place.stage, place.parity ^ 1u);  // true at first
      copier.Copy(ring, place.stage, k);
      ArriveWithCopies(full + 8 * place.stage);
      place.Advance(ring.shape.stages);
    }
  }
  CommitCopies();
  WaitForCopies<0>();
}

template <WeightFormat kFormat, int kParts, class P, int kForm, int... kWider>
__device__ __forceinline__ void MultiplyTile(const P& product, const TileRing& ring,
                                             RingBarriers& barriers, RingPlace& place,
                                             Forms<kForm, kWider...>) {
  if constexpr (sizeof...(kWider) > 0) {
    if (product.columns() > kForm) {
      return MultiplyTile<kFormat, kParts>(product, ring, barriers, place, Forms<kWider...>());
    }
  }
  if constexpr (kHasForm<kParts, kForm>) {
    WgmmaTile<kFormat, kForm, kParts>::Run(product, ring, barriers, place);
  }
}

template <WeightFormat kFormat, int kParts, class F, class T>
__device__ __forceinline__ void StartTiles(const T& tiles, const TileRing& ring, F forms) {
  __shared__ RingBarriers barriers;
  if (threadIdx.x < kMaxTileStages) {
    InitBarrier(SharedAddress(barriers.full + threadIdx.x), kCopiers);
    InitBarrier(SharedAddress(barriers.empty + threadIdx.x), kMultiplyingWarps);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  // 56 + 2 x 224 = 504 of the 512 registers that a multiprocessor has for each 128 threads.
  if (threadIdx.x < kCopiers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    CopyTiles<kParts>(tiles, ring, barriers, forms);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
  RingPlace place;
  for (int i = static_cast<int>(blockIdx.x); i < tiles.count(); i += static_cast<int>(gridDim.x)) {
    const auto product = tiles.At(i);
    if (product.columns() == 0) continue;
    MultiplyTile<kFormat, kParts>(product, ring, barriers, place, forms);
  }
}

}  // namespace kv8::cuda
