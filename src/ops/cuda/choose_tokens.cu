// Tokens drawn from logits, in two kernels: one counts and weighs tokens by how likely they are,
// the other lists those among which the choice is made, and its last thread block for a row makes
// it. Contract: choose_tokens.h.
#include "ops/cuda/choose_tokens.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;  // of shared memory: one for each value of a digit
constexpr int kBinsPerThread = kBins / kThreads;

using Weight = unsigned long long;

struct Amount {
  Weight weight;
  unsigned count;
};
__device__ __forceinline__ Amount operator+(Amount a, Amount b) {
  return {a.weight + b.weight, a.count + b.count};
}

/// Leading tokens have the lower keys: logit descending, then token ascending.
__device__ __forceinline__ Weight Key(float logit, unsigned token) {
  const unsigned bits = Bits(logit + 0.0f);  // equal zeros get one key
  const unsigned descending = (bits & 0x80000000u) != 0u ? bits : ~(bits | 0x80000000u);
  return static_cast<Weight>(descending) << 32 | token;
}
__device__ __forceinline__ float LogitOf(Weight key) {
  const auto descending = static_cast<unsigned>(key >> 32);
  const bool negative = (descending & 0x80000000u) != 0u;
  return __uint_as_float(negative ? descending : ~descending & 0x7FFFFFFFu);
}

/// Counts and weights of tokens. 64-bit sums from 32-bit additions: shared memory has no others.
struct Bins {
  unsigned low[kBins], high[kBins], count[kBins];

  __device__ void Clear() {
    __syncthreads();  // the last use is over
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) {
      low[i] = high[i] = count[i] = 0;
    }
    __syncthreads();
  }
  __device__ void Add(unsigned bin, Weight weight) {
    const auto lower = static_cast<unsigned>(weight);
    const unsigned before = atomicAdd(low + bin, lower);
    const unsigned upper = static_cast<unsigned>(weight >> 32) + (before + lower < lower ? 1u : 0u);
    if (upper != 0) atomicAdd(high + bin, upper);
    atomicAdd(count + bin, 1u);
  }
  __device__ Amount At(int bin) const {
    return {static_cast<Weight>(high[bin]) << 32 | low[bin], count[bin]};
  }
};

/// A bin, what it holds, and what all bins before it hold.
struct Found {
  Amount before, in;
  int bin;
};

struct Shared {
  Bins bins;
  Amount warps[kThreads / 32];
  Found found;
  bool last;
};

/// What all threads before this one have, and the sum of all.
__device__ Amount Scan(Shared& shared, Amount own, Amount& all) {
  Amount sum = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Amount other{__shfl_up_sync(kFullWarp, sum.weight, offset),
                       __shfl_up_sync(kFullWarp, sum.count, offset)};
    if (Lane() >= offset) sum = sum + other;
  }
  __syncthreads();  // the last use is over
  if (Lane() == 31) shared.warps[Warp()] = sum;
  __syncthreads();
  Amount before{};
  all = {};
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    if (warp == Warp()) before = all;
    all = all + shared.warps[warp];
  }
  return {before.weight + sum.weight - own.weight, before.count + sum.count - own.count};
}

/// What is to be reached: so much weight, or so many tokens.
struct Need {
  bool by_count;
  Weight amount;
  __device__ Weight Of(Amount a) const { return by_count ? a.count : a.weight; }
};

/// The first bin at which the sum reaches `need`, which is not 0 nor more than all.
__device__ Found Find(Shared& shared, Need need) {
  const int first = static_cast<int>(threadIdx.x) * kBinsPerThread;
  Amount own{};
#pragma unroll
  for (int i = 0; i < kBinsPerThread; ++i) own = own + shared.bins.At(first + i);
  Amount all;
  Amount before = Scan(shared, own, all);
  if (need.Of(before) < need.amount && need.Of(before + own) >= need.amount) {
    int bin = first;
    while (need.Of(before + shared.bins.At(bin)) < need.amount) {
      before = before + shared.bins.At(bin++);
    }
    shared.found = {before, shared.bins.At(bin), bin};
  }
  __syncthreads();
  return shared.found;
}

/// One row, as the thread blocks that work on it see it.
struct Row {
  const ChooseTokensArgs& a;
  std::int64_t index;
  const float* logits;
  ChoiceRule rule;
  float largest;

  __device__ Row(const ChooseTokensArgs& args, std::int64_t row)
      : a(args), index(row), logits(args.logits + row * args.stride), rule(args.rules[row]) {}

  /// False when Argmax's token is the answer.
  __device__ bool Draws() {
    const std::int32_t best = a.tokens[index];
    if (rule.scale == 0.0f || best < 0) return false;
    largest = logits[best];
    return true;
  }
  __device__ unsigned Distance(float logit) const {
    return TokenDistance(largest, logit, rule.scale);
  }
  __device__ Weight* weights() const {
    return reinterpret_cast<Weight*>(a.weights) + index * kChoiceBins;
  }
  __device__ unsigned* counts() const { return a.counts + index * kChoiceBins; }
  __device__ ChoiceRow* state() const { return a.state + index; }
  __device__ Weight Within() const {
    return __ldcg(reinterpret_cast<const Weight*>(&state()->within));
  }
  __device__ Weight* list() const { return reinterpret_cast<Weight*>(a.list) + index * kMaxListed; }

  /// Calls work(token, logit) for this thread block's part. Several loads are under way at a time.
  template <class Function>
  __device__ void EachOfPart(Function&& work) const {
    constexpr int kLoads = 8;
    const int parts = static_cast<int>(gridDim.x);
    const int size = (a.vocab + parts - 1) / parts;
    const int begin = static_cast<int>(blockIdx.x) * size;
    const int end = min(begin + size, a.vocab);
    for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kLoads * kThreads) {
      float values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        values[j] = i + j * kThreads < end ? logits[i + j * kThreads] : -Infinity();
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) work(i + j * kThreads, values[j]);
    }
  }

  /// Whether this is the last of the row's thread blocks to come here; what the others wrote to
  /// global memory before is then to be read past the first cache.
  __device__ bool LastThreadBlock(Shared& shared) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const int parts = static_cast<int>(gridDim.x);
      shared.last = atomicAdd(&state()->ticket, 1) == parts - 1;
      if (shared.last) state()->ticket = 0;
    }
    __syncthreads();
    __threadfence();
    return shared.last;
  }

  __device__ void LoadBins(Shared& shared) const {
    __syncthreads();  // the last use is over
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) {
      const Weight weight = i < kChoiceBins ? __ldcg(weights() + i) : 0;
      shared.bins.low[i] = static_cast<unsigned>(weight);
      shared.bins.high[i] = static_cast<unsigned>(weight >> 32);
      shared.bins.count[i] = i < kChoiceBins ? __ldcg(counts() + i) : 0;
    }
    __syncthreads();
  }
};

/// What the bins hold of which `wanted` says so.
template <class Function>
__device__ Amount Total(Shared& shared, Function&& wanted) {
  Amount own{}, all;
#pragma unroll
  for (int i = 0; i < kBinsPerThread; ++i) {
    const int bin = static_cast<int>(threadIdx.x) * kBinsPerThread + i;
    if (wanted(bin)) own = own + shared.bins.At(bin);
  }
  Scan(shared, own, all);
  return all;
}
__device__ Amount Total(Shared& shared) {
  return Total(shared, [](int) { return true; });
}

__device__ bool IsIn(int bin, const ChoiceRow& row) {
  const auto in = [bin](BinRange range) { return range.first <= bin && bin <= range.last; };
  return in(row.k) || in(row.p) || in(row.choice);
}

/// The bins that hold the token at each cut, and the choice, by the bins' sums alone. What is kept
/// is known to the weight of the bins that are cut through, and so are the cuts and the choice that
/// depend on it.
__device__ void Narrow(const Row& row, Shared& shared) {
  row.LoadBins(shared);
  const ChoiceRule& rule = row.rule;
  const Amount all = Total(shared);
  const BinRange none{0, -1};
  ChoiceRow found{.k = none, .p = none};
  Weight least = all.weight, most = all.weight;  // kept so far
  if (rule.CutsAt(all.count)) {
    const Found k = Find(shared, {true, static_cast<Weight>(rule.top_k)});
    found.k = {k.bin, k.bin};
    least = k.before.weight;
    most = least + k.in.weight;
  }
  if (rule.top_p != 0) {
    const Found low = Find(shared, {false, WeightToReach(least, rule.top_p)});
    const Found high = Find(shared, {false, WeightToReach(most, rule.top_p)});
    found.p = {low.bin, high.bin};
    least = low.before.weight;
    most = high.before.weight + high.in.weight;
  }
  const Weight within = row.Within();
  const Weight random = rule.random;
  found.choice = {Find(shared, {false, ShareOf(min(least, within), random) + 1}).bin,
                  Find(shared, {false, ShareOf(min(most, within), random) + 1}).bin};
  found.candidates = Total(shared, [&](int bin) { return IsIn(bin, found); }).count;
  if (threadIdx.x != 0) return;
  ChoiceRow& state = *row.state();
  state.k = found.k;
  state.p = found.p;
  state.choice = found.choice;
  state.candidates = found.candidates;
}

/// Some tokens: those whose distance and key have given bits.
struct Group {
  unsigned distance_mask, distance;
  Weight key_mask, key;

  __device__ bool Has(unsigned d, Weight k) const {
    return (d & distance_mask) == distance && (k & key_mask) == key;
  }
};

/// Calls work(key, distance) for every candidate of the row.
template <class Function>
__device__ void EachCandidate(const Row& row, unsigned candidates, Function&& work) {
  const bool listed = candidates <= kMaxListed;
  const int count = listed ? static_cast<int>(candidates) : row.a.vocab;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const Weight key = listed ? __ldcg(row.list() + i) : Key(row.logits[i], i);
    work(key, row.Distance(LogitOf(key)));
  }
}

/// What tells the tokens of one bin apart, the highest digit first: the distance below its bin,
/// then the key's logit, then its token. A digit is bits [shift, shift + bits) of the key or
/// distance.
struct Digits {
  bool of_key[8] = {};
  int shift[8] = {}, bits[8] = {};
  int count = 0;

  constexpr Digits() {
    Cut(false, kBinBits, 0);
    Cut(true, 64, 32);
    Cut(true, kVocabBits, 0);
  }
  constexpr void Cut(bool key, int end, int begin) {
    while (end > begin) {
      bits[count] = end - begin < kDigitBits ? end - begin : kDigitBits;
      end -= bits[count];
      shift[count] = end;
      of_key[count++] = key;
    }
  }
};

/// The first token at which the sum reaches `need`: which, and the weight of those before it. Digit
/// by digit, from the bins down to the token's own bits, until one token is left.
__device__ Found Descend(const Row& row, Shared& shared, unsigned candidates, Need need,
                         Group& group) {
  constexpr Digits kDigits;
  row.LoadBins(shared);
  Found found = Find(shared, need);
  group = {~0u << kBinBits, static_cast<unsigned>(found.bin) << kBinBits, 0, 0};
  Amount before = found.before;
  for (int level = 0; level < kDigits.count && found.in.count > 1; ++level) {
    const unsigned mask = (1u << kDigits.bits[level]) - 1;
    const auto digit = [&](Weight key, unsigned distance) {
      return kDigits.of_key[level] ? static_cast<unsigned>(key >> kDigits.shift[level]) & mask
                                   : distance >> kDigits.shift[level] & mask;
    };
    shared.bins.Clear();
    EachCandidate(row, candidates, [&](Weight key, unsigned distance) {
      if (group.Has(distance, key)) shared.bins.Add(digit(key, distance), TokenWeight(distance));
    });
    __syncthreads();
    found = Find(shared, {need.by_count, need.amount - need.Of(before)});
    before = before + found.before;
    if (kDigits.of_key[level]) {
      group.key_mask |= static_cast<Weight>(mask) << kDigits.shift[level];
      group.key |= static_cast<Weight>(found.bin) << kDigits.shift[level];
    } else {
      group.distance_mask |= mask << kDigits.shift[level];
      group.distance |= static_cast<unsigned>(found.bin) << kDigits.shift[level];
    }
  }
  found.before = before;
  return found;
}

/// By all threads of one thread block; the answer replaces Argmax's.
__device__ void Choose(const Row& row, Shared& shared, unsigned candidates) {
  const ChoiceRule& rule = row.rule;
  row.LoadBins(shared);
  const Amount all = Total(shared);
  Weight kept = all.weight;
  Group group;
  if (rule.CutsAt(all.count)) {
    const Need need{true, static_cast<Weight>(rule.top_k)};
    const Found k = Descend(row, shared, candidates, need, group);
    kept = k.before.weight + k.in.weight;
  }
  if (rule.top_p != 0) {
    const Need need{false, WeightToReach(kept, rule.top_p)};
    const Found p = Descend(row, shared, candidates, need, group);
    kept = p.before.weight + p.in.weight;
  }
  kept = min(kept, row.Within());
  Descend(row, shared, candidates, {false, ShareOf(kept, rule.random) + 1}, group);
  EachCandidate(row, candidates, [&](Weight key, unsigned distance) {
    if (group.Has(distance, key)) row.a.tokens[row.index] = static_cast<std::int32_t>(key);
  });
}

}  // namespace

/// Thread blocks: x over parts of a row, y over rows.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_weigh_tokens(const ChooseTokensArgs a) {
  AfterEarlierKernels();
  __shared__ Shared shared;
  Row row(a, blockIdx.y);
  if (!row.Draws()) return;
  shared.bins.Clear();
  Weight within = 0;
  row.EachOfPart([&](int, float logit) {
    const unsigned distance = row.Distance(logit);
    if (distance == kFarthest) return;
    const Weight weight = TokenWeight(distance);
    shared.bins.Add(distance >> kBinBits, weight);
    if (distance <= row.rule.max_distance) within += weight;
  });
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    within += __shfl_xor_sync(kFullWarp, within, offset);
  }
  if (Lane() == 0) atomicAdd(reinterpret_cast<Weight*>(&row.state()->within), within);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kChoiceBins; i += kThreads) {
    const Amount amount = shared.bins.At(i);
    if (amount.count == 0) continue;
    atomicAdd(row.weights() + i, amount.weight);
    atomicAdd(row.counts() + i, amount.count);
  }
  if (row.LastThreadBlock(shared)) Narrow(row, shared);
}

/// Likewise.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_choose_tokens(const ChooseTokensArgs a) {
  AfterEarlierKernels();
  __shared__ Shared shared;
  Row row(a, blockIdx.y);
  if (!row.Draws()) return;
  ChoiceRow& state = *row.state();
  const ChoiceRow found = state;
  const unsigned candidates = found.candidates;
  if (candidates <= kMaxListed) {
    row.EachOfPart([&](int token, float logit) {
      if (!IsIn(static_cast<int>(row.Distance(logit) >> kBinBits), found)) return;
      row.list()[atomicAdd(&state.listed, 1u)] = Key(logit, static_cast<unsigned>(token));
    });
  }
  if (!row.LastThreadBlock(shared)) return;
  Choose(row, shared, candidates);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kChoiceBins; i += kThreads) {
    row.weights()[i] = 0;
    row.counts()[i] = 0;
  }
  if (threadIdx.x == 0) state = {};
}

}  // namespace kv8::cuda
