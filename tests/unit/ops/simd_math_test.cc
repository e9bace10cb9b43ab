// Accuracy of the vector functions, on every target.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "unit/ops/simd_math_test.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/simd_math-inl.h"
#include "unit/ops/simd_targets_test_util.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

void ExpAll(const float* x, std::int64_t count, float* out) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    hn::StoreU(Exp(tag, hn::LoadU(tag, x + i)), tag, out + i);
  });
}
void SigmoidAll(const float* x, std::int64_t count, float* out) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    hn::StoreU(Sigmoid(tag, hn::LoadU(tag, x + i)), tag, out + i);
  });
}
void SiluAll(const float* x, std::int64_t count, float* out) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    hn::StoreU(Silu(tag, hn::LoadU(tag, x + i)), tag, out + i);
  });
}
float DotOf(const float* a, const float* b, std::int64_t count) {
  return Dot(a, b, count);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8 {
namespace simd {

HWY_EXPORT(ExpAll);
HWY_EXPORT(SigmoidAll);
HWY_EXPORT(SiluAll);
HWY_EXPORT(DotOf);

}  // namespace simd
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Distance in units of the exact value's last place; below the normal range the place is fixed.
double Ulps(float actual, double exact) {
  const double place = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), std::ldexp(1.0, -149));
  return std::fabs(static_cast<double>(actual) - exact) / place;
}

std::vector<float> Samples(float low, float high) {
  std::vector<float> x;
  for (int i = 0; i <= 100'001; ++i) {
    x.push_back(low + (high - low) * (static_cast<float>(i) / 100'001.0f));
  }
  return x;
}

template <class Function>
std::vector<float> Apply(Function&& function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function(x.data(), static_cast<std::int64_t>(x.size()), y.data());
  return y;
}

TEST(SimdMath, ExpWithinTwoUlps) {
  ForEachSimdTarget([&] {
    const std::vector<float> x = Samples(-103.9f, 88.72f);
    const std::vector<float> y = Apply(HWY_DYNAMIC_DISPATCH(simd::ExpAll), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(Ulps(y[i], std::exp(static_cast<double>(x[i]))), 2.0) << x[i];
    }
  });
}

TEST(SimdMath, ExpAtTheEnds) {
  ForEachSimdTarget([&] {
    const std::vector<float> y =
        Apply(HWY_DYNAMIC_DISPATCH(simd::ExpAll),
              {-kInfinity, -1e30f, -105.0f, 88.8f, 1e30f, kInfinity, 0.0f, NAN, -0.0f});
    for (const int i : {0, 1, 2}) EXPECT_EQ(y[static_cast<std::size_t>(i)], 0.0f);
    for (const int i : {3, 4, 5}) EXPECT_EQ(y[static_cast<std::size_t>(i)], kInfinity);
    EXPECT_EQ(y[6], 1.0f);
    EXPECT_TRUE(std::isnan(y[7]));
    EXPECT_EQ(y[8], 1.0f);
  });
}

TEST(SimdMath, SigmoidAndSiluWithinFourUlps) {
  ForEachSimdTarget([&] {
    const std::vector<float> x = Samples(-80.0f, 80.0f);
    const std::vector<float> sigmoid = Apply(HWY_DYNAMIC_DISPATCH(simd::SigmoidAll), x);
    const std::vector<float> silu = Apply(HWY_DYNAMIC_DISPATCH(simd::SiluAll), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
      ASSERT_LE(Ulps(sigmoid[i], exact), 4.0) << x[i];
      ASSERT_LE(Ulps(silu[i], exact * static_cast<double>(x[i])), 4.0) << x[i];
    }
  });
}

TEST(SimdMath, DotOfAnyLength) {
  ForEachSimdTarget([&] {
    std::vector<float> a, b;
    float expected = 0;  // sums of small integers: exact
    for (int n = 0; n < 150; ++n) {
      EXPECT_EQ(HWY_DYNAMIC_DISPATCH(simd::DotOf)(a.data(), b.data(), n), expected) << n;
      a.push_back(static_cast<float>(n % 7 - 3));
      b.push_back(static_cast<float>(n % 5 + 1));
      expected += a.back() * b.back();
    }
  });
}

}  // namespace
}  // namespace kv8
#endif  // HWY_ONCE
