#include "calib/kv_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <mutex>
#include <utility>

#include "calib/log2_bins.h"

namespace kv8 {
namespace {

constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFFu;
constexpr std::uint32_t kInfinityBits = 0x7F800000u;

/// A thread's share of one matrix. Its counts fit 32 bits: a pass has far fewer values.
struct Partial {
  std::uint32_t max_bits = 0;  // magnitudes of floats order like their bits, NaN above infinity
  std::uint32_t zeros = 0;
  std::array<std::uint32_t, LogHistogram::kBins> bins{};
};

void AddRow(std::span<const float> row, const Log2Bins& log2_bins, Partial& partial) {
  std::uint32_t max_bits = partial.max_bits;
  for (const float x : row) {
    max_bits = std::max(max_bits, std::bit_cast<std::uint32_t>(x) & kMagnitudeMask);
  }
  partial.max_bits = max_bits;
  if (max_bits >= kInfinityBits) return;  // the run is refused; nobody will ask for the rest
  for (const float x : row) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & kMagnitudeMask;
    if (bits == 0) {
      ++partial.zeros;
    } else {
      ++partial.bins[log2_bins.BinOf(bits)];
    }
  }
}

void AddPartial(const Partial& partial, std::uint64_t count, SideStatistics& side) {
  side.count += count;
  side.finite_count += count;
  side.nonzero_count += count - partial.zeros;
  side.max_abs = std::max(side.max_abs, std::bit_cast<float>(partial.max_bits));
  for (std::size_t i = 0; i < partial.bins.size(); ++i) side.histogram.bins[i] += partial.bins[i];
}

}  // namespace

void KvObserver::BeginDocument(const std::string& category, std::string where) {
  category_ = category;
  where_ = std::move(where);
}

void KvObserver::OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) {
  const auto found = std::lower_bound(
      layers_.begin(), layers_.end(), layer,
      [](const LayerStatistics& statistics, int id) { return statistics.layer < id; });
  assert(found != layers_.end() && found->layer == layer);
  Observe(layer, 'K', k, found->k);
  Observe(layer, 'V', v, found->v);
}

void KvObserver::Observe(int layer, char side_name, ConstMatrix values, SideStatistics& side) {
  const Log2Bins& log2_bins = Log2Bins::Get();
  std::mutex mutex;
  std::uint32_t max_bits = 0;
  pool_.ParallelFor(values.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    Partial partial;
    for (std::int64_t r = begin; r < end; ++r) AddRow(values.row(r), log2_bins, partial);
    const std::lock_guard lock(mutex);
    max_bits = std::max(max_bits, partial.max_bits);
    if (max_bits >= kInfinityBits) return;
    AddPartial(partial, static_cast<std::uint64_t>((end - begin) * values.cols), side);
  });
  if (max_bits >= kInfinityBits) {
    if (!error_) {
      error_ = Error{Code::kCorrupt,
                     fmt::format("layer {} {} has values that are not finite", layer, side_name),
                     where_, "check the weights with `kv8 inspect --check-finite`"};
    }
    return;
  }
  float& shard = side.shard_max_abs[category_];
  shard = std::max(shard, std::bit_cast<float>(max_bits));
}

Result<void> KvObserver::status() const {
  if (error_) return *error_;
  return {};
}

}  // namespace kv8
