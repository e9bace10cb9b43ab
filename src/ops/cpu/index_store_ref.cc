// Oracle of the index store, in double.
#include <algorithm>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

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
      if ((position + 1) % config.selection_block_tokens != 0) continue;
      const std::int64_t first = position + 1 - config.selection_block_tokens;
      const std::vector<double> mean =
          MeanOfRing(slice.index_ring, config.index_dim, first, config.selection_block_tokens);
      std::vector<double> key =
          GroupedNorm(std::span<const double>(mean), rope.gain, /*groups=*/1, rope.eps);
      Rotate(key, rope.inv_freq, first);
      std::byte* const to = slice.index.At(position / config.selection_block_tokens);
      for (std::int64_t i = 0; i < config.index_dim; ++i) {
        StoreKvElement(dtype, static_cast<float>(key[static_cast<std::size_t>(i)]), 1.0f, to, i);
      }
    }
  }
}

}  // namespace kv8::reference
