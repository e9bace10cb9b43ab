// Oracle of the index store, in double.
#include <cmath>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"

namespace kv8::reference {
namespace {

/// Mean of the raw keys of tokens [first, first + count).
std::vector<double> MeanOfRing(std::span<const float> ring, std::int64_t dim, std::int64_t first,
                               std::int64_t count) {
  std::vector<double> mean(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t token = first; token < first + count; ++token) {
    const float* const raw = ring.data() + token % kIndexRingTokens * dim;
    for (std::int64_t i = 0; i < dim; ++i) mean[static_cast<std::size_t>(i)] += raw[i];
  }
  for (double& value : mean) value /= static_cast<double>(count);
  return mean;
}

void NormAndRotate(std::vector<double>& x, const HeadNormRope& rope, std::int64_t position) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double inverse =
      1.0 / std::sqrt(squares / static_cast<double>(x.size()) + double{rope.eps});
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= inverse * rope.gain[i];
  const std::size_t half = rope.inv_freq.size();
  for (std::size_t j = 0; j < half; ++j) {
    const float angle = static_cast<float>(position) * rope.inv_freq[j];
    const double c = std::cos(double{angle}), s = std::sin(double{angle});
    const double low = x[j], high = x[j + half];
    x[j] = low * c - high * s;
    x[j + half] = high * c + low * s;
  }
}

}  // namespace

void IndexStore(const OpContext&, const QsaConfig& config, ConstMatrix raw,
                const HeadNormRope& rope, std::span<const QsaSlice> slices) {
  for (const QsaSlice& slice : slices) {
    const KvDType dtype = slice.index.layout.fp32 ? KvDType::kFp32 : KvDType::kFp16;
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t position = slice.first_position + t;
      const std::span<const float> from = raw.row(slice.row_begin + t);
      std::copy(from.begin(), from.end(),
                slice.index_ring.begin() + position % kIndexRingTokens * config.index_dim);
      if ((position + 1) % config.block_tokens != 0) continue;
      const std::int64_t first = position + 1 - config.block_tokens;
      std::vector<double> key =
          MeanOfRing(slice.index_ring, config.index_dim, first, config.block_tokens);
      NormAndRotate(key, rope, first);
      std::byte* const to = slice.index.At(position / config.block_tokens);
      for (std::int64_t i = 0; i < config.index_dim; ++i) {
        StoreKvElement(dtype, static_cast<float>(key[static_cast<std::size_t>(i)]), 1.0f, to, i);
      }
    }
  }
}

}  // namespace kv8::reference
