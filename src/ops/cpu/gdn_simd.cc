// Gated DeltaNet: one task per sequence and key head. Both forms of the contract are this
// recurrence; docs/kernels/gdn.md says why, with figures.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gdn_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#ifndef KV8_OPS_CPU_GDN_TASK_H_
#define KV8_OPS_CPU_GDN_TASK_H_
#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {

/// One key head of one sequence, with the value heads that share it.
struct GdnTask {
  const GdnConfig* config;
  const GdnWeights* weights;
  const GdnInputs* in;
  const GdnSlice* slice;
  int key_head;
  float eps;
  Matrix out;
  Arena scratch;
  const GdnTask* next;  // what the thread does after it, or null

  std::int64_t history() const { return config->conv_kernel - 1; }
  int heads() const { return config->value_heads / config->key_heads; }  // of this task
  int first_head() const { return key_head * heads(); }
  std::int64_t head_state() const { return std::int64_t{config->key_dim} * config->value_dim; }
  /// S of one value head, [key_dim,value_dim].
  float* State(int head) const { return slice->state.data() + head * head_state(); }
  /// The state that is read after that of the task's `h`-th head.
  const float* StateAfter(int h) const {
    if (h + 1 < heads()) return State(first_head() + h + 1);
    return next == nullptr ? nullptr : next->State(next->first_head());
  }
  /// Raw input of row `t` of the slice, [C]; the rows before it are in the state.
  const float* RawRow(std::int64_t t) const {
    if (t >= 0) return in->qkv.data + (slice->row_begin + t) * in->qkv.stride;
    return slice->conv_state.data() + (history() + t) * in->qkv.cols;
  }
};

/// A run of the task's channels, convolved into `out` [rows,count].
struct GdnChannels {
  std::int64_t first;
  std::int64_t count;
  float* out;
};

// Rows handled together: their convolved inputs and one head's state fit a first-level cache.
inline constexpr std::int64_t kGdnRows = 16;
// Room for one vector of any instruction set.
inline constexpr std::int64_t kTapLanes = 16;

/// A task's working memory.
struct GdnBuffers {
  GdnChannels q, k, v;
  float* taps;           // [kernel, kTapLanes], weights of one vector of channels
  float* o;              // [kGdnRows, value_dim]
  float* decay;          // [kGdnRows], e^gamma of one head
  float* beta;           // [kGdnRows]
  float* qk;             // [kGdnRows], q . k
  const float** inputs;  // [kernel - 1 + kGdnRows], raw rows
};

/// The task says which channels they are.
inline GdnBuffers TakeBuffers(Arena& arena, const GdnConfig& config) {
  const std::int64_t heads = config.value_heads / config.key_heads;
  GdnBuffers b{};
  b.decay = arena.Take<float>(kGdnRows);
  b.beta = arena.Take<float>(kGdnRows);
  b.qk = arena.Take<float>(kGdnRows);
  b.taps = arena.Take<float>(config.conv_kernel * kTapLanes);
  b.o = arena.Take<float>(kGdnRows * config.value_dim);
  b.q.out = arena.Take<float>(kGdnRows * config.key_dim);
  b.k.out = arena.Take<float>(kGdnRows * config.key_dim);
  b.v.out = arena.Take<float>(kGdnRows * config.value_dim * heads);
  b.inputs = arena.Take<const float*>(config.conv_kernel - 1 + kGdnRows);
  return b;
}

}  // namespace kv8::simd
#endif  // KV8_OPS_CPU_GDN_TASK_H_

#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

constexpr float kL2Epsilon = 1e-6f;

/// First of the channels of the task's q, k and v, and how many they are.
struct GdnRange {
  std::int64_t first;
  std::int64_t count;
};
std::array<GdnRange, 3> Ranges(const GdnTask& task) {
  const GdnConfig& config = *task.config;
  const std::int64_t dk = config.key_dim, dv = std::int64_t{config.value_dim} * task.heads();
  const std::int64_t keys = config.key_heads * dk;
  return {{{task.key_head * dk, dk},
           {keys + task.key_head * dk, dk},
           {2 * keys + task.key_head * dv, dv}}};
}

/// Asks for the inputs of the task's first row: short runs, which the hardware does not prefetch.
void PrefetchInputs(const GdnTask& task) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  for (const GdnRange& range : Ranges(task)) {
    for (std::int64_t j = -task.history(); j <= 0; ++j) {
      const float* const row = task.RawRow(j) + range.first;
      for (std::int64_t i = 0; i < range.count; i += kLine) hwy::Prefetch(row + i);
    }
  }
}

GdnBuffers MakeBuffers(const GdnTask& task) {
  Arena scratch = task.scratch;
  GdnBuffers b = TakeBuffers(scratch, *task.config);
  const auto [q, k, v] = Ranges(task);
  b.q = {q.first, q.count, b.q.out};
  b.k = {k.first, k.count, b.k.out};
  b.v = {v.first, v.count, b.v.out};
  return b;
}

/// Weights [channels,kernel] of one vector of channels, as one aligned vector per tap.
template <class D>
void LoadTaps(D d, const float* from, std::int64_t kernel, float* taps) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (kernel == 4 && lanes > 1) {
    hn::Vec<D> tap[4];
    hn::LoadInterleaved4(d, from, tap[0], tap[1], tap[2], tap[3]);
    for (int j = 0; j < 4; ++j) hn::Store(tap[j], d, taps + j * kTapLanes);
    return;
  }
  for (std::int64_t c = 0; c < lanes; ++c) {
    for (std::int64_t j = 0; j < kernel; ++j) taps[j * kTapLanes + c] = *from++;
  }
}

/// silu(causal depthwise convolution) of one vector of channels; `inputs` are the raw rows, the
/// first of them kernel - 1 before the first output's.
template <class D>
void ConvolveVector(D d, const float* taps, std::int64_t kernel, const float* const* inputs,
                    std::int64_t channel, std::int64_t rows, float* out, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    auto sum = hn::Zero(d);
    for (std::int64_t j = 0; j < kernel; ++j) {
      sum =
          hn::MulAdd(hn::Load(d, taps + j * kTapLanes), hn::LoadU(d, inputs[r + j] + channel), sum);
    }
    hn::StoreU(Silu(d, sum), d, out + r * stride);
  }
}

/// Convolves rows [first, first + rows) of all the task's channels.
void Convolve(const GdnTask& task, const GdnBuffers& b, std::int64_t first, std::int64_t rows) {
  const std::int64_t kernel = task.config->conv_kernel;
  for (std::int64_t i = 0; i < task.history() + rows; ++i) {
    b.inputs[i] = task.RawRow(first - task.history() + i);
  }
  for (const GdnChannels* part : {&b.q, &b.k, &b.v}) {
    const float* const weights = task.weights->conv.data() + part->first * kernel;
    ForEachVector(hn::ScalableTag<float>(), part->count, [&](auto d, std::int64_t c) HWY_ATTR {
      LoadTaps(d, weights + c * kernel, kernel, b.taps);
      ConvolveVector(d, b.taps, kernel, b.inputs, part->first + c, rows, part->out + c,
                     part->count);
    });
  }
}

/// Keeps the last raw inputs of some channels. Slots ascend: each reads only later ones.
void KeepHistory(const GdnTask& task, const GdnChannels& channels) {
  for (std::int64_t j = 0; j < task.history(); ++j) {
    const float* from = task.RawRow(task.slice->row_count - task.history() + j) + channels.first;
    float* to = task.slice->conv_state.data() + j * task.in->qkv.cols + channels.first;
    std::copy_n(from, channels.count, to);
  }
}

void ScaleRow(float* x, std::int64_t count, float factor) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  });
}

/// Normalises q and k of every row and takes their products.
void NormalizeKeys(const GdnBuffers& b, std::int64_t dk, std::int64_t rows) {
  const float root = 1.0f / std::sqrt(static_cast<float>(dk));
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const q = b.q.out + r * dk;
    float* const k = b.k.out + r * dk;
    ScaleRow(q, dk, root / std::sqrt(Dot(q, q, dk) + kL2Epsilon));
    ScaleRow(k, dk, 1.0f / std::sqrt(Dot(k, k, dk) + kL2Epsilon));
    b.qk[r] = Dot(q, k, dk);
  }
}

/// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), the latter as 2 atanh(y / (2 + y)), whose argument is
/// at most 1/3: eight terms of the series reach 2e-9.
template <class D, class V = hn::Vec<D>>
V Softplus(D d, V x) {
  const V y = Exp(d, hn::Neg(hn::Abs(x)));
  const V s = hn::Div(y, hn::Add(y, hn::Set(d, 2.0f)));
  const V z = hn::Mul(s, s);
  V series = hn::Set(d, 2.0f / 15);
  for (const float term : {2.0f / 13, 2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3, 2.0f}) {
    series = hn::MulAdd(series, z, hn::Set(d, term));
  }
  return hn::MulAdd(series, s, hn::Max(x, hn::Zero(d)));
}

/// decay = e^gamma and beta of one value head, rows [first, first + rows) of the slice. Lanes after
/// the last row repeat it.
void Gates(const GdnTask& task, int head, std::int64_t first, std::int64_t rows,
           const GdnBuffers& b) {
  const hn::CappedTag<float, kGdnRows> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ConstMatrix &log_decay = task.in->a, &update = task.in->b;
  for (std::int64_t r = 0; r < RoundUp(rows, lanes); ++r) {
    const std::int64_t row = task.slice->row_begin + first + std::min(r, rows - 1);
    b.decay[r] = log_decay.data[row * log_decay.stride + head];
    b.beta[r] = update.data[row * update.stride + head];
  }
  const auto h = static_cast<std::size_t>(head);
  const auto rate = hn::Set(d, task.weights->decay[h]);
  const auto bias = hn::Set(d, task.weights->dt_bias[h]);
  for (std::int64_t r = 0; r < rows; r += lanes) {
    const auto softplus = Softplus(d, hn::Add(hn::Load(d, b.decay + r), bias));
    hn::Store(Exp(d, hn::Mul(rate, softplus)), d, b.decay + r);
    hn::Store(Sigmoid(d, hn::Load(d, b.beta + r)), d, b.beta + r);
  }
}

/// Asks for what a first pass over S will read: row i of kVectors vectors.
template <int kVectors, class D>
HWY_INLINE void PrefetchRow(D d, const float* row) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  const std::int64_t count = kVectors * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += kLine) hwy::Prefetch(row + i);
}

/// One head's rows through kVectors vectors of value columns:
///   u = beta (v - e^gamma S^T k);  o = e^gamma S^T q + (q . k) u;  S = e^gamma S + k u^T
/// which is the contract's recurrence with one pass over S for both reads. The first row asks for
/// the same columns of the state at `ahead`, unless that is null.
template <int kVectors, class D>
void RunColumns(D d, const GdnBuffers& b, std::int64_t rows, std::int64_t dk, std::int64_t dv,
                const float* HWY_RESTRICT v, float* HWY_RESTRICT o, float* HWY_RESTRICT state,
                const float* ahead) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT q = b.q.out + r * dk;
    const float* HWY_RESTRICT k = b.k.out + r * dk;
    V at_q[kVectors], at_k[kVectors];
    for (int c = 0; c < kVectors; ++c) at_q[c] = at_k[c] = hn::Zero(d);
    for (std::int64_t i = 0; i < dk; ++i) {
      if (ahead != nullptr) PrefetchRow<kVectors>(d, ahead + i * dv);
      const V qi = hn::Set(d, q[i]), ki = hn::Set(d, k[i]);
      for (int c = 0; c < kVectors; ++c) {
        const V s = hn::LoadU(d, state + i * dv + c * lanes);
        at_q[c] = hn::MulAdd(s, qi, at_q[c]);
        at_k[c] = hn::MulAdd(s, ki, at_k[c]);
      }
    }
    ahead = nullptr;
    const V decay = hn::Set(d, b.decay[r]), beta = hn::Set(d, b.beta[r]);
    const V qk = hn::Set(d, b.qk[r]);
    V u[kVectors];
    for (int c = 0; c < kVectors; ++c) {
      const V value = hn::LoadU(d, v + r * b.v.count + c * lanes);
      u[c] = hn::Mul(beta, hn::NegMulAdd(decay, at_k[c], value));
      hn::StoreU(hn::MulAdd(qk, u[c], hn::Mul(decay, at_q[c])), d, o + r * dv + c * lanes);
    }
    for (std::int64_t i = 0; i < dk; ++i) {
      const V ki = hn::Set(d, k[i]);
      for (int c = 0; c < kVectors; ++c) {
        float* const at = state + i * dv + c * lanes;
        hn::StoreU(hn::MulAdd(ki, u[c], hn::Mul(decay, hn::LoadU(d, at))), d, at);
      }
    }
  }
}

/// All columns of one head, four vectors at a time: that part of S stays in the first-level cache
/// for all rows.
void RunHead(const GdnBuffers& b, std::int64_t rows, std::int64_t dk, std::int64_t dv,
             const float* v, float* state, const float* ahead) {
  const hn::ScalableTag<float> d;
  constexpr int kVectors = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto ahead_of = [&](std::int64_t c) { return ahead == nullptr ? nullptr : ahead + c; };
  std::int64_t c = 0;
  for (; c + kVectors * lanes <= dv; c += kVectors * lanes) {
    RunColumns<kVectors>(d, b, rows, dk, dv, v + c, b.o + c, state + c, ahead_of(c));
  }
  for (; c + lanes <= dv; c += lanes) {
    RunColumns<1>(d, b, rows, dk, dv, v + c, b.o + c, state + c, ahead_of(c));
  }
  const hn::CappedTag<float, 1> d1;
  for (; c < dv; ++c) RunColumns<1>(d1, b, rows, dk, dv, v + c, b.o + c, state + c, nullptr);
}

/// out = norm * (o * rsqrt(mean(o^2) + eps)) * sigmoid(z)
void NormAndGate(const GdnTask& task, const float* o, const float* z, float* out) {
  const std::int64_t dv = task.config->value_dim;
  const float mean = Dot(o, o, dv) / static_cast<float>(dv);
  const float inverse = 1.0f / std::sqrt(mean + task.eps);
  const float* const norm = task.weights->norm.data();
  ForEachVector(hn::ScalableTag<float>(), dv, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto normed = hn::Mul(hn::LoadU(d, o + i), hn::Set(d, inverse));
    const auto weighted = hn::Mul(hn::LoadU(d, norm + i), normed);
    hn::StoreU(hn::Mul(weighted, Sigmoid(d, hn::LoadU(d, z + i))), d, out + i);
  });
}

}  // namespace

void RunGdn(const GdnTask& task) {
  const std::int64_t dk = task.config->key_dim, dv = task.config->value_dim;
  const GdnBuffers b = MakeBuffers(task);
  for (std::int64_t first = 0; first < task.slice->row_count; first += kGdnRows) {
    const std::int64_t rows = std::min(kGdnRows, task.slice->row_count - first);
    const bool last = first + rows == task.slice->row_count;
    Convolve(task, b, first, rows);
    if (last && task.next != nullptr) PrefetchInputs(*task.next);
    NormalizeKeys(b, dk, rows);
    for (int h = 0; h < task.heads(); ++h) {
      const int head = task.first_head() + h;
      Gates(task, head, first, rows, b);
      RunHead(b, rows, dk, dv, b.v.out + h * dv, task.State(head),
              last ? task.StateAfter(h) : nullptr);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t row = task.slice->row_begin + first + r;
        NormAndGate(task, b.o + r * dv, task.in->z.data + row * task.in->z.stride + head * dv,
                    task.out.data + row * task.out.stride + head * dv);
      }
    }
  }
  for (const GdnChannels* part : {&b.q, &b.k, &b.v}) KeepHistory(task, *part);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(RunGdn);

ScratchSize GdnScratch(const OpSizes& sizes) {
  if (sizes.gdn.key_heads == 0) return {};
  Arena thread;
  TakeBuffers(thread, sizes.gdn);
  return {0, thread.bytes()};
}

void GdnDecode(const OpContext& ctx, const GdnConfig& config, const GdnWeights& weights,
               const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  const auto run = HWY_DYNAMIC_DISPATCH(RunGdn);
  const auto tasks = static_cast<std::int64_t>(slices.size()) * config.key_heads;
  const auto task = [&](std::int64_t i, int thread) {
    const GdnSlice& slice = slices[static_cast<std::size_t>(i / config.key_heads)];
    const int key_head = static_cast<int>(i % config.key_heads);
    const Arena scratch = ctx.scratch.Thread(thread);
    return GdnTask{&config, &weights, &in, &slice, key_head, eps, out, scratch, nullptr};
  };
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      GdnTask current = task(i, thread);
      if (current.slice->row_count == 0) continue;
      const GdnTask next = task(std::min(i + 1, end - 1), thread);
      if (i + 1 < end && next.slice->row_count > 0) current.next = &next;
      run(current);
    }
  };
  ctx.pool.ParallelFor(tasks, 1, body);
}

void GdnPrefill(const OpContext& ctx, const GdnConfig& config, const GdnWeights& weights,
                const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  GdnDecode(ctx, config, weights, in, slices, eps, out);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
