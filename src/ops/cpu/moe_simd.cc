#include "ops/moe.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/product.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/moe_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

// gate = silu(gate) * up
void Activate(const float* up, std::int64_t count, float* gate) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto activated = Silu(tag, hn::LoadU(tag, gate + i));
    hn::StoreU(hn::Mul(activated, hn::LoadU(tag, up + i)), tag, gate + i);
  });
}

// out = sum over i of factors[i] * parts[i], in that order
void WeightedSum(const float* const* parts, const float* factors, int count, std::int64_t dim,
                 float* out) {
  ForEachVector(hn::ScalableTag<float>(), dim, [&](auto tag, std::int64_t d) HWY_ATTR {
    auto sum = hn::Zero(tag);
    for (int i = 0; i < count; ++i) {
      sum = hn::MulAdd(hn::Set(tag, factors[i]), hn::LoadU(tag, parts[i] + d), sum);
    }
    hn::StoreU(sum, tag, out + d);
  });
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(Activate);
HWY_EXPORT(WeightedSum);

// Rows of the small loops that are done before a second thread has started.
constexpr std::int64_t kRowGrain = 4;

// Buffers of one call, for T rows and k experts per row; a route is one (row, chosen expert).
struct Buffers {
  Matrix logits;         // [T,E]
  Matrix shared_gate;    // [T,1]
  Matrix input;          // [T*k,H]: rows of x, in the order of the experts
  Matrix gate_up;        // [T*k,2F]
  Matrix shared;         // [T,2Fs]
  Matrix output;         // [T*k,H]
  Matrix shared_out;     // [T,H]
  float* p;              // [T*k]: weight of every route, by row, ascending expert
  std::int32_t* expert;  // [T*k]: its expert
  std::int32_t* place;   // [T*k]: its row in input, gate_up and output
  std::int32_t* first;   // [E+1]: where each expert's rows begin
  Product* products;     // [2E+2]: of one step
};

Buffers TakeBuffers(Arena& arena, const MoeConfig& config, std::int64_t rows, std::int64_t dim) {
  const std::int64_t routes = rows * config.experts_per_token;
  const std::int64_t width = 2 * config.expert_dim;
  const std::int64_t shared_width = 2 * config.shared_expert_dim;
  const auto take = [&](std::int64_t r, std::int64_t c) {
    return Matrix(arena.Take<float>(r * c), r, c);
  };
  Buffers b;
  b.logits = take(rows, config.experts);
  b.shared_gate = take(rows, 1);
  b.input = take(routes, dim);
  b.gate_up = take(routes, width);
  b.shared = take(rows, shared_width);
  b.output = take(routes, dim);
  b.shared_out = take(rows, dim);
  b.p = take(routes, 1).data;
  b.expert = arena.Take<std::int32_t>(routes);
  b.place = arena.Take<std::int32_t>(routes);
  b.first = arena.Take<std::int32_t>(config.experts + 1);
  b.products = arena.Take<Product>(2 * config.experts + 2);
  return b;
}

// What one row's output is the sum of.
struct Terms {
  const float** parts;  // [k+1]
  float* factors;       // [k+1]
};

Terms TakeTerms(Arena& arena, int k) {
  return {arena.Take<const float*>(k + 1), arena.Take<float>(k + 1)};
}

// The k largest logits: experts in ascending order, and their softmax. Ties go to the lower expert.
void Route(std::span<const float> logits, int k, std::int32_t* expert, float* p) {
  const auto experts = static_cast<std::int32_t>(logits.size());
  int count = 0;
  for (std::int32_t e = 0; e < experts; ++e) {  // expert[] holds the best so far, best first
    if (count == k && !(logits[e] > logits[expert[k - 1]])) continue;
    int at = count < k ? count++ : k - 1;
    for (; at > 0 && logits[e] > logits[expert[at - 1]]; --at) expert[at] = expert[at - 1];
    expert[at] = e;
  }
  const float top = logits[expert[0]];
  std::sort(expert, expert + k);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += p[i] = std::exp(logits[expert[i]] - top);
  for (int i = 0; i < k; ++i) p[i] /= sum;
}

// Counting sort of the routes by expert; rows keep their order.
void PlaceRoutes(std::int64_t routes, int experts, const Buffers& b) {
  std::fill_n(b.first, experts + 1, 0);
  for (std::int64_t i = 0; i < routes; ++i) ++b.first[b.expert[i] + 1];
  for (int e = 0; e < experts; ++e) b.first[e + 1] += b.first[e];
  for (std::int64_t i = 0; i < routes; ++i) b.place[i] = b.first[b.expert[i]]++;
  for (int e = experts; e > 0; --e) b.first[e] = b.first[e - 1];
  b.first[0] = 0;
}

void ChooseExperts(const OpContext& ctx, Arena left, const MoeConfig& config,
                   const MoeWeights& weights, ConstMatrix x, const Buffers& b) {
  const Product products[] = {{x, weights.router, b.logits},
                              {x, weights.shared_gate, b.shared_gate}};
  RunProducts(ctx, left, products);
  const std::int64_t k = config.experts_per_token;
  ctx.pool.ParallelFor(x.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      Route(b.logits.row(t), config.experts_per_token, b.expert + t * k, b.p + t * k);
    }
  });
  PlaceRoutes(x.rows * k, config.experts, b);
  ctx.pool.ParallelFor(x.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * k; i < end * k; ++i) {
      std::copy_n(x.row(i / k).data(), x.cols, b.input.row(b.place[i]).data());
    }
  });
}

// silu(gate) * up, into the gate half of every row.
void ActivateRows(const OpContext& ctx, Matrix gate_up) {
  const std::int64_t width = gate_up.cols / 2;
  ctx.pool.ParallelFor(gate_up.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* gate = gate_up.row(t).data();
      HWY_DYNAMIC_DISPATCH(Activate)(gate + width, width, gate);
    }
  });
}

// The chosen experts and the shared one, into output and shared_out.
void RunExperts(const OpContext& ctx, Arena left, const MoeConfig& config,
                const MoeWeights& weights, ConstMatrix x, const Buffers& b) {
  const std::int64_t width = config.expert_dim;
  const std::int64_t shared_width = config.shared_expert_dim;
  Product* next = b.products;
  for (std::int64_t e = 0; e < config.experts; ++e) {
    const std::int64_t count = b.first[e + 1] - b.first[e];
    if (count == 0) continue;
    const ConstMatrix in = b.input.Rows(b.first[e], count);
    const Matrix gate_up = b.gate_up.Rows(b.first[e], count);
    *next++ = {in, weights.gate[static_cast<std::size_t>(e)], gate_up.Cols(0, width)};
    *next++ = {in, weights.up[static_cast<std::size_t>(e)], gate_up.Cols(width, width)};
  }
  *next++ = {x, weights.shared_gate_proj, b.shared.Cols(0, shared_width)};
  *next++ = {x, weights.shared_up_proj, b.shared.Cols(shared_width, shared_width)};
  RunProducts(ctx, left, {b.products, next});

  ActivateRows(ctx, b.gate_up);
  ActivateRows(ctx, b.shared);

  next = b.products;
  for (std::int64_t e = 0; e < config.experts; ++e) {
    const std::int64_t count = b.first[e + 1] - b.first[e];
    if (count == 0) continue;
    *next++ = {b.gate_up.Rows(b.first[e], count).Cols(0, width),
               weights.down[static_cast<std::size_t>(e)], b.output.Rows(b.first[e], count)};
  }
  *next++ = {b.shared.Cols(0, shared_width), weights.shared_down_proj, b.shared_out};
  RunProducts(ctx, left, {b.products, next});
}

void Combine(const OpContext& ctx, int k, const Buffers& b, Matrix out) {
  ctx.pool.ParallelFor(out.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end, int thread) {
    Arena scratch = ctx.scratch.Thread(thread);
    const auto [parts, factors] = TakeTerms(scratch, k);
    for (std::int64_t t = begin; t < end; ++t) {
      for (int i = 0; i < k; ++i) {
        parts[i] = b.output.row(b.place[t * k + i]).data();
        factors[i] = b.p[t * k + i];
      }
      parts[k] = b.shared_out.row(t).data();
      factors[k] = 1.0f / (1.0f + std::exp(-b.shared_gate.row(t)[0]));
      HWY_DYNAMIC_DISPATCH(WeightedSum)(parts, factors, k + 1, out.cols, out.row(t).data());
    }
  });
}

}  // namespace

ScratchSize MoeScratch(const OpSizes& sizes) {
  const MoeConfig& moe = sizes.moe;
  if (moe.experts == 0) return {};
  const std::int64_t widest =
      std::max<std::int64_t>({sizes.hidden, moe.expert_dim, moe.shared_expert_dim});
  ScratchSize most;
  for (const std::int64_t rows : MostRows(sizes.rows)) {
    Arena shared, thread;
    TakeBuffers(shared, moe, rows, sizes.hidden);
    TakePackedRows(shared, rows, sizes.hidden);  // the experts' products have no x in common
    TakePanel(thread, rows, widest);
    most.Cover({shared.bytes(), thread.bytes()});
  }
  Arena thread;
  TakeTerms(thread, moe.experts_per_token);
  most.Cover({0, thread.bytes()});
  return most;
}

void Moe(const OpContext& ctx, const MoeConfig& config, const MoeWeights& weights, ConstMatrix x,
         Matrix out) {
  if (x.rows == 0) return;
  Arena shared = ctx.scratch.shared;
  const Buffers buffers = TakeBuffers(shared, config, x.rows, x.cols);
  ChooseExperts(ctx, shared, config, weights, x, buffers);
  RunExperts(ctx, shared, config, weights, x, buffers);
  Combine(ctx, config.experts_per_token, buffers, out);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
