#include "ops/ple_hash.h"

#include <cassert>

namespace kv8 {

void PleRowIds(const PleHash& hash, std::span<const TokenId> window, std::span<std::int64_t> rows) {
  assert(rows.size() == hash.head_sizes.size());
  const std::size_t length = hash.multipliers.size();
  const auto per_ngram = static_cast<std::size_t>(hash.heads_per_ngram);
  std::uint64_t mix = 0;  // products are below 2^63 for every id of the vocabulary
  bool cut = false;       // an eos stands at this place or after it, before the token itself
  for (std::size_t s = 0; s < length; ++s) {
    const TokenId id = window[length - 1 - s];
    cut = cut || (s > 0 && id == hash.eos);
    mix ^= static_cast<std::uint64_t>(cut ? hash.eos : id) *
           static_cast<std::uint64_t>(hash.multipliers[s]);
    if (s == 0) continue;  // heads start at pairs of tokens
    for (std::size_t h = (s - 1) * per_ngram; h < s * per_ngram; ++h) {
      rows[h] = static_cast<std::int64_t>(mix % static_cast<std::uint64_t>(hash.head_sizes[h])) +
                hash.offsets[h];
    }
  }
}

void FillWindow(std::span<const TokenId> context, std::span<const TokenId> ids, std::int64_t i,
                std::span<TokenId> window) {
  const auto length = static_cast<std::int64_t>(window.size());
  const auto known = static_cast<std::int64_t>(context.size());
  for (std::int64_t s = 0; s < length; ++s) {
    const std::int64_t at = i - (length - 1) + s;
    window[static_cast<std::size_t>(s)] =
        at >= 0 ? ids[static_cast<std::size_t>(at)] : context[static_cast<std::size_t>(known + at)];
  }
}

}  // namespace kv8
