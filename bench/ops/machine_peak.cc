#include "machine_peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_peak.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;  // more than latency times pipes

// Multiply-adds per round; the result keeps the compiler from dropping them.
std::int64_t MultiplyAdds(std::int64_t rounds, float* result) {
  const hn::CappedTag<float, 16> d;
  hn::Vec<decltype(d)> sums[kChains];
  const auto factor = hn::Set(d, 0.999f);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, factor);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *result = hn::GetLane(sums[0]);
  return rounds * kChains * static_cast<std::int64_t>(hn::Lanes(d));
}

std::uint32_t Read(const std::uint32_t* words, std::int64_t count) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  for (std::int64_t i = 0; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Xor(a, hn::LoadU(d, words + i));
    b = hn::Xor(b, hn::LoadU(d, words + i + lanes));
  }
  return hn::GetLane(hn::Xor(a, b));
}

}  // namespace kv8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8 {
namespace {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(Read);

constexpr int kTrials = 20;  // the best of them: other processes can only slow one down

template <class Work>
double BestRate(const Work& work) {
  double best = 0;
  for (int i = 0; i < kTrials; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto amount = static_cast<double>(work());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, amount / seconds.count());
  }
  return best;
}

}  // namespace

double PeakMacsPerSecond() {
  static const double rate = BestRate([] {
    volatile float sink = 0;
    float result = 0;
    const std::int64_t macs = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(200'000, &result);
    sink = result;
    (void)sink;
    return macs;
  });
  return rate;
}

double ReadBytesPerSecond(std::int64_t bytes) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(bytes / 4), 1);
  return BestRate([&] {
    volatile std::uint32_t sink = 0;
    sink = HWY_DYNAMIC_DISPATCH(Read)(words.data(), bytes / 4);
    (void)sink;
    return bytes;
  });
}

}  // namespace kv8
#endif  // HWY_ONCE
