#include "ops/norm.h"

#include <cmath>

#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

void NormRow(const float* x, const float* gain, int groups, std::int64_t dim, float eps,
             float* out) {
  GroupedNorm(x, gain, groups, dim, eps, out);
}

// x[j], x[j + half] for j < half, turned by the angles whose cosines and sines are given.
void Rotate(const float* cosines, const float* sines, std::int64_t half, float* x) {
  const hn::ScalableTag<float> d;
  ForEachVector(d, half, [&](auto tag, std::int64_t j) HWY_ATTR {
    const auto c = hn::LoadU(tag, cosines + j);
    const auto s = hn::LoadU(tag, sines + j);
    const auto first = hn::LoadU(tag, x + j);
    const auto second = hn::LoadU(tag, x + j + half);
    hn::StoreU(hn::NegMulAdd(second, s, hn::Mul(first, c)), tag, x + j);
    hn::StoreU(hn::MulAdd(first, s, hn::Mul(second, c)), tag, x + j + half);
  });
}

void NormRotateHeads(const float* x, int heads, std::int64_t head_stride, const HeadNormRope& rope,
                     const float* cosines, const float* sines, float* out) {
  const auto dim = static_cast<std::int64_t>(rope.gain.size());
  const auto half = static_cast<std::int64_t>(rope.inv_freq.size());
  for (int h = 0; h < heads; ++h) {
    RmsNorm(x + h * head_stride, rope.gain.data(), dim, rope.eps, out + h * dim);
    Rotate(cosines, sines, half, out + h * dim);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(NormRow);
HWY_EXPORT(NormRotateHeads);

// Elements that are done before a second thread has started.
constexpr std::int64_t kSerialElements = 8192;
// The same for the rows of HeadNormRope, whose sines and cosines weigh more than the heads.
constexpr std::int64_t kRopeGrain = 2;

std::int64_t RowGrain(std::int64_t row_elements) {
  return std::max<std::int64_t>(1, kSerialElements / std::max<std::int64_t>(1, row_elements));
}

// Cosines and sines of one position.
struct Angles {
  float* cosines;  // [half]
  float* sines;    // [half]
};

Angles TakeAngles(Arena& arena, std::int64_t half) {
  return {arena.Take<float>(half), arena.Take<float>(half)};
}

}  // namespace

ScratchSize HeadNormRopeScratch(const OpSizes& sizes) {
  Arena thread;
  TakeAngles(thread, sizes.qsa.rotary_dim / 2);
  return {0, thread.bytes()};
}

void GroupedRmsNorm(const OpContext& ctx, ConstMatrix x, std::span<const float> gain, int groups,
                    float eps, Matrix out) {
  const auto norm = HWY_DYNAMIC_DISPATCH(NormRow);
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      norm(x.row(t).data(), gain.data(), groups, x.cols / groups, eps, out.row(t).data());
    }
  };
  ctx.pool.ParallelFor(x.rows, RowGrain(x.cols), body);
}

void ApplyHeadNormRope(const OpContext& ctx, ConstMatrix x, int heads, std::int64_t head_stride,
                       const HeadNormRope& rope, std::span<const std::int64_t> positions,
                       Matrix out) {
  const auto heads_of_row = HWY_DYNAMIC_DISPATCH(NormRotateHeads);
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::size_t half = rope.inv_freq.size();
    Arena scratch = ctx.scratch.Thread(thread);
    const auto [cosines, sines] = TakeAngles(scratch, static_cast<std::int64_t>(half));
    for (std::int64_t t = begin; t < end; ++t) {
      const auto position = static_cast<float>(positions[static_cast<std::size_t>(t)]);
      for (std::size_t j = 0; j < half; ++j) {
        cosines[j] = std::cos(position * rope.inv_freq[j]);
        sines[j] = std::sin(position * rope.inv_freq[j]);
      }
      heads_of_row(x.data + t * x.stride, heads, head_stride, rope, cosines, sines,
                   out.row(t).data());
    }
  };
  ctx.pool.ParallelFor(x.rows, kRopeGrain, body);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
