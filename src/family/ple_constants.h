// The constants of the n-gram memory ("PLE"): everything its hash needs, derived from config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/layer_config.h"

namespace kv8 {

/// Constants of one PLE layer. With c[0] the token and c[s] the one s before it, the g-gram hash
/// is x_g = XOR over s < g of c[s] * multipliers[s], and head h of that n-gram reads row
/// x_g mod head_sizes[h] + offsets[h] of the table.
struct PleConstants {
  std::vector<std::int64_t> multipliers;  // [ngram_size], odd, multiplier * vocab < 2^63
  std::vector<std::int64_t> head_sizes;   // [heads], distinct primes
  std::vector<std::int64_t> offsets;      // [heads], exclusive prefix sums of head_sizes
  std::int64_t rows = 0;                  // sum of head_sizes
  std::int64_t padded_rows = 0;           // rows of the stored table
};

/// `ple_index` is the rank of the layer in PleConfig::layers: layers draw from one sequence of
/// primes and from one stream of multipliers. A validated PleConfig keeps row ids within 32 bits.
PleConstants DerivePleConstants(const PleConfig& ple, int vocab, int ple_index);

}  // namespace kv8
