#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "numeric/log_histogram.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {
namespace {

constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFFu;
constexpr std::uint32_t kInfinityBits = 0x7F800000u;
constexpr std::int64_t kRowGrain = 16;

/// A thread's share of one head. Its counts fit 32 bits: a pass has far fewer values.
struct Partial {
  std::uint32_t max_bits = 0;  // magnitudes of floats order like their bits, NaN above infinity
  std::uint32_t zeros = 0;
  std::array<std::uint32_t, kMagnitudeBins> bins{};
};
static_assert(kMagnitudeBins == LogHistogram::kBins);

void AddValues(const float* values, std::int64_t count, const Log2Bins& log2_bins,
               Partial& partial) {
  std::uint32_t max_bits = partial.max_bits;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask;
    max_bits = std::max(max_bits, bits);
    if (bits == 0) {
      ++partial.zeros;
    } else if (bits < kInfinityBits) {
      ++partial.bins[log2_bins.BinOf(bits)];
    }
  }
  partial.max_bits = max_bits;
}

void AddPartial(const Partial& partial, std::int64_t count, HeadMagnitudes& head,
                std::uint32_t& max_bits) {
  head.count += static_cast<std::uint64_t>(count);
  head.zeros += partial.zeros;
  max_bits = std::max(max_bits, partial.max_bits);
  for (std::size_t i = 0; i < partial.bins.size(); ++i) head.bins[i] += partial.bins[i];
}

void ObserveHead(const OpContext& ctx, ConstMatrix values, HeadMagnitudes& head,
                 std::uint32_t& max_bits) {
  const Log2Bins& log2_bins = Log2Bins::Get();
  std::mutex mutex;
  ctx.pool.ParallelFor(values.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    Partial partial;
    for (std::int64_t row = begin; row < end; ++row) {
      AddValues(values.row(row).data(), values.cols, log2_bins, partial);
    }
    const std::lock_guard lock(mutex);
    AddPartial(partial, (end - begin) * values.cols, head, max_bits);
  });
}

}  // namespace

void KvObserve(const OpContext& ctx, int heads, ConstMatrix k, ConstMatrix v,
               std::span<HeadMagnitudes> out, std::span<std::uint32_t> max_bits) {
  for (int i = 0; i < 2 * heads; ++i) {
    const ConstMatrix& side = i < heads ? k : v;
    const std::int64_t dim = side.cols / heads;
    const auto head = static_cast<std::size_t>(i);
    ObserveHead(ctx, side.Cols(i % heads * dim, dim), out[head], max_bits[head]);
  }
}

}  // namespace kv8::simd
