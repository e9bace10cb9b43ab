#include "family/ple_constants.h"

#include <limits>

#include "base/checked.h"
#include "numeric/split_mix64.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kLayerStride = 10007;

/// Odd, and small enough that multiplier * token id stays below 2^63 for every id of the
/// vocabulary: the hash is then the same in signed and unsigned arithmetic.
std::int64_t Multiplier(const PleConfig& ple, int vocab, int ple_index, int position) {
  const auto limit = std::numeric_limits<std::int64_t>::max() / vocab / 2;
  const auto range = static_cast<std::uint64_t>(limit < 1 ? 1 : limit);
  const std::uint64_t state = static_cast<std::uint64_t>(ple.seed) +
                              kLayerStride * static_cast<std::uint64_t>(ple_index) +
                              kSplitMixGamma * static_cast<std::uint64_t>(position + 1);
  return static_cast<std::int64_t>(2 * (SplitMix64(state) % range) + 1);
}

bool IsPrime(std::int64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0 || n % 3 == 0) return false;
  for (std::int64_t d = 5; d * d <= n; d += 6) {
    if (n % d == 0 || n % (d + 2) == 0) return false;
  }
  return true;
}

}  // namespace

PleConstants DerivePleConstants(const PleConfig& ple, int vocab, int ple_index) {
  PleConstants out;
  PleHash& hash = out.hash;
  hash.heads_per_ngram = ple.heads_per_ngram;
  for (int i = 0; i < ple.ngram_size; ++i) {
    hash.multipliers.push_back(Multiplier(ple, vocab, ple_index, i));
  }
  std::int64_t skip = std::int64_t{ple_index} * ple.heads();
  for (std::int64_t n = ple.vocab_base; std::ssize(hash.head_sizes) < ple.heads(); ++n) {
    if (!IsPrime(n) || skip-- > 0) continue;
    hash.head_sizes.push_back(n);
    hash.offsets.push_back(out.rows);
    out.rows += n;
  }
  out.padded_rows = RoundUp(out.rows, ple.vocab_divisor);
  return out;
}

}  // namespace kv8
