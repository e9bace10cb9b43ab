// The constants of the n-gram memory ("PLE"): everything its hash needs, derived from config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/model_config.h"
#include "kv8/error.h"

namespace kv8 {

/// Constants of one PLE layer. With c[0] the token and c[s] the one s before it, the g-gram hash
/// is x_g = XOR over s < g of c[s] * multipliers[s], and head h of that n-gram reads row
/// x_g mod head_rows[h] + head_offsets[h] of the table.
struct PleConstants {
  std::vector<std::int64_t> multipliers;   // [ngram_size], odd, multiplier * vocab < 2^63
  std::vector<std::int64_t> head_rows;     // [heads], distinct primes
  std::vector<std::int64_t> head_offsets;  // [heads], exclusive prefix sums of head_rows
  std::int64_t rows = 0;                   // sum of head_rows
  std::int64_t padded_rows = 0;            // rows of the stored table; at most 2^31 - 1
};

/// `ple_index` is the rank of the layer in PleConfig::layers: layers draw from one sequence of
/// primes and from one stream of multipliers.
/// Errors: kUnsupported when a table would have more rows than a 32-bit row id can name.
Result<PleConstants> DerivePleConstants(const PleConfig& ple, int vocab, int ple_index);

}  // namespace kv8
