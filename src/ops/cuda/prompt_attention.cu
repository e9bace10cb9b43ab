// Sparse attention for prompts: one block per group of rows and K/V head, a warp per row. The pages
// that any row selects pass through shared memory once; each warp takes its own out of them.
// Contract: prompt_attention.h; why it has this shape: docs/kernels/cuda-prompt-attention.md.
#include "ops/cuda/prompt_attention.h"

#include "ops/cuda/attention.cuh"

namespace kv8::cuda {

#if __CUDA_ARCH__ >= 800
namespace {

constexpr int kWarps = kPromptGroupRows;
constexpr int kThreads = 32 * kWarps;
constexpr int kPagesPerBlock = kTokensPerBlock / kPageTokens;

/// A warp takes four kinds of pages, and so many of each, at a time.
constexpr int kDeep = 2;

/// How much larger than the largest score that the sums relate to a score may be, as a power of
/// two, before they are put in relation to it: weights are FP16.
constexpr float kScoreSlack = 8.0f;

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// A barrier in shared memory: its phases end when so many have arrived.
struct Barrier {
  unsigned address;

  __device__ __forceinline__ void Init(int arrivals) const {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(address), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void Arrive() const {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
                 :
                 : "r"(address)
                 : "memory");
  }
  /// Arrives when all copies that this thread has started are done.
  __device__ __forceinline__ void ArriveAfterCopies() const {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(address) : "memory");
  }
  /// Waits until the phase of this parity has ended.
  __device__ __forceinline__ void Wait(int parity) const {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(address), "r"(parity)
          : "memory");
    }
  }
};

/// Pages of a group: those that any row selects, ascending, then each row's open page.
struct PageList {
  std::uint32_t* page;  // in the sequence; after Locate in the pool: block * 16 + place in it
  unsigned char* rows;  // bit r: row r attends to it
  int selected, count;
};

/// A block's work and its shared memory.
template <PageType kType, int kDim>
struct Work {
  static constexpr int kRowBytes = kDim * kElementBytes<kType>;
  static constexpr int kSideBytes = kPageTokens * kRowBytes;
  static constexpr int kPageBytes = 2 * kSideBytes;

  const SparseAttentionArgs& a;
  const RowGroup group;
  const int kv_head, sequence, stages;
  unsigned char* const ring;  // [stage][page][K|V][token]; before, the map of selected pages
  uint4* const scratch;       // of each warp: fragments of queries, then output
  unsigned char* const barriers;
  PageList list;
  int* const sums;  // [warps]

  __device__ Work(const PromptAttentionArgs& args, unsigned char* shared)
      : a(args.attention),
        group{args.groups[blockIdx.x].begin - args.first_row, args.groups[blockIdx.x].count},
        kv_head(static_cast<int>(blockIdx.y)),
        sequence(a.rows.sequence[group.begin]),
        stages(args.stages),
        ring(shared),
        scratch(reinterpret_cast<uint4*>(shared + Zeros() + kSideBytes)),
        barriers(shared + Zeros() + kSideBytes + kWarps * kPromptScratchBytes),
        list{reinterpret_cast<std::uint32_t*>(barriers + 16 * kMaxPromptStages),
             reinterpret_cast<unsigned char*>(list.page + PromptListPages(a.budget_blocks)) +
                 4 * kWarps,
             0, 0},
        sums(reinterpret_cast<int*>(list.page + PromptListPages(a.budget_blocks))) {}

  /// Where in the ring one side of a page of zeros is.
  __device__ int Zeros() const { return stages * kPromptStagePages * kPageBytes; }

  /// End when a stage of the ring is there, and when all rows are done with it.
  __device__ Barrier Full(int slot) const {
    return {static_cast<unsigned>(__cvta_generic_to_shared(barriers)) +
            static_cast<unsigned>(slot) * 16};
  }
  __device__ Barrier Empty(int slot) const { return {Full(slot).address + 8}; }

  /// Pages that a row selects.
  __device__ int Selected(int row) const { return a.counts[group.begin + row]; }
  __device__ const std::int32_t* Selection(int row) const {
    return a.blocks + static_cast<std::int64_t>(group.begin + row) * a.budget_blocks;
  }
  /// Tokens of a row's open page.
  __device__ int OpenTokens(int row) const {
    return static_cast<int>((a.rows.position[group.begin + row] + 1) % kPageTokens);
  }
};

__device__ __forceinline__ int NonzeroBytes(unsigned word) {
  return __popc(__vcmpne4(word, 0u)) / 8;
}

/// Puts the selected ones of `pages` pages from `first` on at the end of the list. `map` has a byte
/// for each, in which bit r is row r's.
template <PageType kType, int kDim>
__device__ void Unite(Work<kType, kDim>& w, unsigned* map, int first, int pages) {
  const int thread = static_cast<int>(threadIdx.x);
  const int words = (pages + 3) / 4;
  for (int i = thread; i < words; i += kThreads) map[i] = 0;
  __syncthreads();
  if (Warp() < w.group.count) {
    const std::int32_t* const selection = w.Selection(Warp());
    const int selected = w.Selected(Warp());
#pragma unroll 8
    for (int i = Lane(); i < selected; i += 32) {
      const int page = selection[i] - first;
      if (page >= 0 && page < pages) atomicOr(map + page / 4, 1u << (page % 4 * 8 + Warp()));
    }
  }
  __syncthreads();
  // Each thread has neighbouring words, an odd number: lanes meet different banks.
  const int share = ((words + kThreads - 1) / kThreads) | 1;
  const int begin = min(thread * share, words), end = min(begin + share, words);
  int mine = 0;
  for (int i = begin; i < end; ++i) mine += NonzeroBytes(map[i]);
  int up_to = mine;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int before = __shfl_up_sync(kFullWarp, up_to, offset);
    if (Lane() >= offset) up_to += before;
  }
  if (Lane() == 31) w.sums[Warp()] = up_to;
  __syncthreads();
  int at = w.list.selected + up_to - mine;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < Warp()) at += w.sums[warp];
    w.list.selected += w.sums[warp];
  }
  for (int i = begin; i < end; ++i) {
    const unsigned word = map[i];
    for (int byte = 0; word >> (8 * byte) != 0; ++byte) {
      const unsigned rows = (word >> (8 * byte)) & 0xFFu;
      if (rows != 0) {
        w.list.page[at] = static_cast<std::uint32_t>(first + 4 * i + byte);
        w.list.rows[at++] = static_cast<unsigned char>(rows);
      }
      if (byte == 3) break;
    }
  }
  __syncthreads();  // map and sums are used again
}

/// Fills the list, and says where in the pool its pages are.
template <PageType kType, int kDim>
__device__ void ListPages(Work<kType, kDim>& w) {
  int last = -1;
  if (Lane() < w.group.count) {
    const int selected = w.Selected(Lane());
    if (selected > 0) last = w.Selection(Lane())[selected - 1];
  }
  last = __reduce_max_sync(kFullWarp, last);
  const int window = w.Zeros();  // a byte of the ring for each page
  for (int first = 0; first <= last; first += window) {
    Unite(w, reinterpret_cast<unsigned*>(w.ring), first, min(window, last + 1 - first));
  }
  const bool open = Lane() < w.group.count && w.OpenTokens(min(Lane(), w.group.count - 1)) != 0;
  const unsigned rows = __ballot_sync(kFullWarp, open);
  if (Warp() == 0 && open) {
    const int at = w.list.selected + __popc(rows & ((1u << Lane()) - 1));
    w.list.page[at] =
        static_cast<std::uint32_t>((w.a.rows.position[w.group.begin + Lane()] + 1) / kPageTokens);
    w.list.rows[at] = static_cast<unsigned char>(1u << Lane());
  }
  w.list.count = w.list.selected + __popc(rows);
  __syncthreads();
  const std::int32_t* const table = w.a.tables.blocks + w.sequence * w.a.tables.stride;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < w.list.count; i += kThreads) {
    const std::uint32_t page = w.list.page[i];
    w.list.page[i] = static_cast<std::uint32_t>(table[page / kPagesPerBlock]) * kPagesPerBlock +
                     page % kPagesPerBlock;
  }
  __syncthreads();
}

/// A stage's place in the ring, and how often, modulo two, the ring was gone around before it.
struct Cursor {
  int slot = 0, parity = 0;
  __device__ __forceinline__ void Advance(int stages) {
    if (++slot == stages) slot = 0, parity ^= 1;
  }
};

/// Starts to copy this warp's page of a stage to its place. What a row's open
/// page holds after the row becomes zeros.
template <PageType kType, int kDim>
__device__ __forceinline__ void StartStage(const Work<kType, kDim>& w, int stage, int slot) {
  using W = Work<kType, kDim>;
  constexpr int kPerRow = W::kRowBytes / 16;
  const int index = stage * kPromptStagePages + Warp();
  if (index < w.list.count) {
    const int place = slot * kPromptStagePages + Warp();
    const std::uint32_t page = w.list.page[index];
    const int tokens =
        index < w.list.selected ? kPageTokens : w.OpenTokens(__ffs(w.list.rows[index]) - 1);
    const std::int64_t side_bytes = std::int64_t{w.a.kv.kv_heads} * kTokensPerBlock * W::kRowBytes;
    const unsigned char* const from =
        w.a.kv.data + KvOffset(w.a.kv.kv_heads, W::kRowBytes,
                               static_cast<int>(page / kPagesPerBlock), 0, w.kv_head,
                               static_cast<int>(page % kPagesPerBlock) * kPageTokens);
    unsigned char* const to = w.ring + place * W::kPageBytes;
#pragma unroll
    for (int step = 0; step < W::kPageBytes / 512; ++step) {
      const int piece = step * 32 + Lane();
      const int side = piece / (kPageTokens * kPerRow);
      const int token = piece / kPerRow % kPageTokens, byte = piece % kPerRow * 16;
      const int turn = side == 0 ? TurnOfKey(token) : TurnOfValue(place);
      CopyToShared16(to + side * W::kSideBytes + TileByte<W::kRowBytes>(token, byte, turn),
                     from + side * side_bytes + token * W::kRowBytes + byte, token < tokens);
    }
  }
  w.Full(slot).ArriveAfterCopies();
}

/// A warp's row: its queries, and what it knows of heads g and g + 8 (r = 0, 1): the score that the
/// sums relate to, the sum of the weights of this lane's own tokens, sums of weighted values.
template <PageType kType, int kDim>
struct Row {
  using W = Work<kType, kDim>;
  using K = KeyPieces<kType, kDim>;
  using V = ValuePieces<kType, kDim>;

  static constexpr int kSteps = kDim / 16;
  static constexpr int kHeld = kDim == 256 ? 8 : kSteps;
  static_assert((kSteps - kHeld) * 512 <= kPromptScratchBytes);

  // Fragments of the queries as FP16, relative to the head's largest magnitude; those of the steps
  // from kHeld on are in shared memory.
  unsigned query[kHeld][4];
  uint4* more;
  float factor[2];  // of scores
  float base[2] = {-Infinity(), -Infinity()};
  float sum[2] = {0.0f, 0.0f};
  float values[kDim / 8][4] = {};

  __device__ void Load(const W& w, int row, int heads) {
    const int g = Lane() / 4, t = Lane() % 4;
    more = w.scratch + Warp() * (kPromptScratchBytes / 16);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int head = g + 8 * r;
      const float* const from =
          w.a.query +
          (static_cast<std::int64_t>(row) * w.a.query_heads + w.kv_head * heads + head) * kDim;
      float4 q[kSteps];
      float largest = 0.0f;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int d =
            (4 * (s / K::kStepsPerPiece) + t) * K::kPerPiece + 4 * (s % K::kStepsPerPiece);
        q[s] = head < heads ? *reinterpret_cast<const float4*>(from + d)
                            : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        largest = fmaxf(fmaxf(largest, fmaxf(fabsf(q[s].x), fabsf(q[s].y))),
                        fmaxf(fabsf(q[s].z), fabsf(q[s].w)));
      }
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 2));
      const float scale = largest > 0.0f ? largest : 1.0f;
      const float inverse = 1.0f / scale;
      factor[r] = scale * ScoreFactor<kType, kDim>(w.a.kv);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        unsigned* const to =
            s < kHeld ? query[s] : reinterpret_cast<unsigned*>(more + (s - kHeld) * 32 + Lane());
        to[r] = PackHalf2(q[s].x * inverse, q[s].y * inverse);
        to[2 + r] = PackHalf2(q[s].z * inverse, q[s].w * inverse);
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
      const uint4 q = more[(step - kHeld) * 32 + Lane()];
      fragment[0] = q.x, fragment[1] = q.y, fragment[2] = q.z, fragment[3] = q.w;
    }
  }

  /// scores[n][u], column 2 t + c: q . K of token 2 u + c of a page. `keys` are the pages of column
  /// g, those of kind g / 2.
  __device__ __forceinline__ void Score(const unsigned char* const (&keys)[kDeep],
                                        float (&scores)[kDeep][2][4]) const {
    const int g = Lane() / 4, t = Lane() % 4;
    // Pieces j of even and of odd j; turns reach no further.
    const int place[2] = {TileByte<W::kRowBytes>(g % 2, 16 * t, TurnOfKey(g)),
                          TileByte<W::kRowBytes>(g % 2, 16 * (4 + t), TurnOfKey(g))};
#pragma unroll
    for (int j = 0; j < K::kPieces; ++j) {
      uint4 piece[kDeep][2];
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          piece[n][u] = *reinterpret_cast<const uint4*>(keys[n] + place[j % 2] + j / 2 * 128 +
                                                        2 * u * W::kRowBytes);
        }
      }
#pragma unroll
      for (int i = 0; i < K::kStepsPerPiece; ++i) {
        unsigned fragment[4];
        Query(j * K::kStepsPerPiece + i, fragment);
#pragma unroll
        for (int n = 0; n < kDeep; ++n) {
#pragma unroll
          for (int u = 0; u < 2; ++u) K::MultiplyStep(scores[n][u], fragment, piece[n][u], i);
        }
      }
    }
  }

  /// Puts the sums in relation to larger scores, where there are much larger ones.
  __device__ __forceinline__ void Raise(const float (&top)[2]) {
    const bool raise[2] = {top[0] > base[0] + kScoreSlack, top[1] > base[1] + kScoreSlack};
    if (!__any_sync(kFullWarp, raise[0] || raise[1])) return;
    float relation[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      relation[r] = raise[r] ? Exp2(base[r] - top[r]) : 1.0f;
      base[r] = raise[r] ? top[r] : base[r];
      sum[r] *= relation[r];
    }
#pragma unroll
    for (auto& tile : values) {
      tile[0] *= relation[0], tile[1] *= relation[0];
      tile[2] *= relation[1], tile[3] *= relation[1];
    }
  }

  /// Scores of the first tokens[n] tokens of the lane's own pages become FP16 weights.
  __device__ __forceinline__ void Weigh(float (&scores)[kDeep][2][4], const int (&tokens)[kDeep],
                                        unsigned (&weights)[kDeep][4]) {
    float top[2] = {-Infinity(), -Infinity()};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
#pragma unroll
        for (int i = 0; i < kPageTokens; ++i) {
          float& score = scores[n][i / 2][2 * r + i % 2];
          score = i < tokens[n] ? score * factor[r] : -Infinity();
          top[r] = fmaxf(top[r], score);
        }
      }
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(kFullWarp, top[r], 2));
    }
    Raise(top);
#pragma unroll
    for (int n = 0; n < kDeep; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          const unsigned pair = PackHalf2(Exp2(scores[n][u][2 * r] - base[r]),
                                          Exp2(scores[n][u][2 * r + 1] - base[r]));
          const float2 rounded = UnpackHalf2(pair);
          sum[r] += rounded.x + rounded.y;
          weights[n][2 * u + r] = pair;
        }
      }
    }
  }

  /// kDeep pages of each kind: `keys` are column g's, `vectors` the lane's own, those of kind t.
  __device__ __forceinline__ void Add(const unsigned char* const (&keys)[kDeep],
                                      const unsigned char* const (&vectors)[kDeep],
                                      const int (&tokens)[kDeep]) {
    const int g = Lane() / 4, t = Lane() % 4;
    float scores[kDeep][2][4] = {};
    Score(keys, scores);
    unsigned weights[kDeep][4];
    Weigh(scores, tokens, weights);
    const int place = TileByte<W::kRowBytes>(0, g * V::kPieceBytes, TurnOfValue(t));
#pragma unroll
    for (int n = 0; n < kDeep; ++n) {
#pragma unroll
      for (int p = 0; p < V::kPieces; ++p) {
        unsigned token[kPageTokens][V::kWords];
#pragma unroll
        for (int i = 0; i < kPageTokens; ++i) {
          V::Read(token[i], vectors[n] + place + i * W::kRowBytes + p * 8 * V::kPieceBytes);
        }
        V::MultiplyPiece(values, p, weights[n], token);
      }
    }
  }

  /// Writes the row's output. 64 dimensions at a time pass through the warp's scratch, [head][piece
  /// of 16 bytes], so that neighbouring lanes write neighbouring dimensions.
  __device__ void Write(const W& w, int row, int heads) {
    constexpr int kColumns = 64 / V::kPerPiece;
    const int g = Lane() / 4, t = Lane() % 4;
    float4* const scratch = reinterpret_cast<float4*>(more);
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(kFullWarp, sum[r], 1);
      sum[r] += __shfl_xor_sync(kFullWarp, sum[r], 2);
      // A row without tokens has no weights.
      scale[r] = sum[r] == 0.0f ? 0.0f : ValueFactor<kType>(w.a.kv) / sum[r];
    }
    float4 gates[2][8];  // of this part and the next
    LoadGates(w, row, heads, 0, gates[0]);
#pragma unroll
    for (int part = 0; part < kDim / 64; ++part) {
      if (part + 1 < kDim / 64) LoadGates(w, row, heads, part + 1, gates[(part + 1) % 2]);
      __syncwarp();
      if (2 * t / kColumns == part % (8 / kColumns)) {
#pragma unroll
        for (int i = 0; i < 4 * V::kPerPiece; i += 4) {
          const int r = i / (2 * V::kPerPiece), c = i / V::kPerPiece % 2, e = i % V::kPerPiece;
          const int head = g + 8 * r, column = 2 * r + c;
          const int tile = part * kColumns / 8 * V::kPerPiece + e;
          const int piece = ((2 * t + c) % kColumns * V::kPerPiece + e) / 4;
          scratch[head * 16 + (piece ^ g)] =
              make_float4(values[tile][column] * scale[r], values[tile + 1][column] * scale[r],
                          values[tile + 2][column] * scale[r], values[tile + 3][column] * scale[r]);
        }
      }
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

/// Bit i: this warp's row attends to page i of the stage.
template <PageType kType, int kDim>
__device__ __forceinline__ unsigned OwnPages(const Work<kType, kDim>& w, int stage) {
  const int index = stage * kPromptStagePages + Lane();
  const bool own =
      Lane() < kPromptStagePages && index < w.list.count && (w.list.rows[index] >> Warp() & 1) != 0;
  return __ballot_sync(kFullWarp, own);
}

/// All stages. A warp takes pages of a window of stages together, so that few of its products are
/// of nothing; which, depends on nothing but the list, so a row's sums are always cut alike. The
/// ring's other stages are for copies ahead, and for warps to be ahead of others.
template <PageType kType, int kDim>
__device__ void RunStages(const Work<kType, kDim>& w, Row<kType, kDim>& row, int heads) {
  using W = Work<kType, kDim>;
  constexpr unsigned kStageMask = (1u << kPromptStagePages) - 1;
  constexpr unsigned kEveryFourth = 0x11111111u;
  const int stages = (w.list.count + kPromptStagePages - 1) / kPromptStagePages;
  const int window = min(max(w.stages - 2, 1), 32 / kPromptStagePages);
  const int ahead = window + max((w.stages - window) / 2, 1) - 1;
  Cursor now, seen, next;  // of `stage`, of the end of its window, and of what is copied then
  for (int stage = 0; stage < ahead; ++stage) {
    if (stage < stages) StartStage(w, stage, next.slot);
    next.Advance(w.stages);
  }
  row.Load(w, min(w.group.begin + Warp(), w.group.begin + w.group.count - 1), heads);
  const unsigned key_kind = kEveryFourth << (Lane() / 8), value_kind = kEveryFourth << (Lane() % 4);
  const int open_tokens = w.OpenTokens(min(Warp(), w.group.count - 1));
  // Pages of the window that are the row's and not done, of the kind that this lane reads as keys
  // or as values.
  unsigned keys = 0, values = 0;
  const auto look_at = [&](int stage, int place) {
    if (stage >= stages) return;
    w.Full(seen.slot).Wait(seen.parity);
    seen.Advance(w.stages);
    const unsigned own = OwnPages(w, stage) << (place * kPromptStagePages);
    keys |= own & key_kind, values |= own & value_kind;
  };
  for (int i = 0; i + 1 < window; ++i) look_at(i, i);
  const int ring_pages = w.stages * kPromptStagePages;
  for (int stage = 0; stage < stages; ++stage) {
    if (stage + ahead < stages) {
      if (stage + ahead >= w.stages) w.Empty(next.slot).Wait(next.parity ^ 1);
      StartStage(w, stage + ahead, next.slot);
      next.Advance(w.stages);
    }
    look_at(stage + window - 1, window - 1);
    const int first = now.slot * kPromptStagePages;
    const auto offset = [&](int bit, int side) {
      const int place = first + bit;
      return bit < 0 ? w.Zeros()
                     : (place < ring_pages ? place : place - ring_pages) * W::kPageBytes + side;
    };
    while (__any_sync(kFullWarp, (values & kStageMask) != 0)) {
      const unsigned char *key[kDeep], *value[kDeep];
      int tokens[kDeep];
#pragma unroll
      for (int n = 0; n < kDeep; ++n) {
        const int key_bit = __ffs(keys) - 1, value_bit = __ffs(values) - 1;
        key[n] = w.ring + offset(key_bit, 0);
        value[n] = w.ring + offset(value_bit, W::kSideBytes);
        const bool open = stage * kPromptStagePages + value_bit >= w.list.selected;
        tokens[n] = value_bit < 0 ? 0 : (open ? open_tokens : kPageTokens);
        keys &= keys - 1, values &= values - 1;
      }
      row.Add(key, value, tokens);
    }
    keys >>= kPromptStagePages, values >>= kPromptStagePages;
    __syncwarp();
    if (Lane() == 0) w.Empty(now.slot).Arrive();
    now.Advance(w.stages);
  }
}

template <PageType kType, int kDim>
__device__ void Attend(const PromptAttentionArgs& args) {
  extern __shared__ __align__(16) unsigned char shared[];
  Work<kType, kDim> w(args, shared);
  if (w.sequence < 0) return;
  const int heads = w.a.query_heads / w.a.kv.kv_heads;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < w.kSideBytes; i += kThreads * 4) {
    *reinterpret_cast<unsigned*>(w.ring + w.Zeros() + i) = 0;
  }
  if (static_cast<int>(threadIdx.x) < w.stages) {
    w.Full(static_cast<int>(threadIdx.x)).Init(kThreads);
    w.Empty(static_cast<int>(threadIdx.x)).Init(kWarps);
  }
  ListPages(w);  // its barriers stand between these and their use
  Row<kType, kDim> row;
  RunStages(w, row, heads);
  if (Warp() < w.group.count) row.Write(w, w.group.begin + Warp(), heads);
}

}  // namespace

#define KV8_ATTEND(type, dim, args) Attend<PageType::type, dim>(args)
#else
/// Rows go alone there: CudaOps launches nothing of this.
#define KV8_ATTEND(type, dim, args)
#endif

#define KV8_PROMPT_ATTENTION(name, type, dim)                               \
  extern "C" __global__ void __launch_bounds__(32 * kPromptGroupRows, 1)    \
      kv8_prompt_attention_##name##_##dim(const PromptAttentionArgs args) { \
    KV8_ATTEND(type, dim, args);                                            \
  }
KV8_PROMPT_ATTENTION(fp16, kFp16, 64)
KV8_PROMPT_ATTENTION(fp16, kFp16, 128)
KV8_PROMPT_ATTENTION(fp16, kFp16, 256)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 64)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 128)
KV8_PROMPT_ATTENTION(e4m3, kE4M3, 256)
#undef KV8_PROMPT_ATTENTION
#undef KV8_ATTEND

}  // namespace kv8::cuda
