// The constants of the n-gram memory ("PLE"): everything its hash needs, derived from config.json.
#pragma once

#include <cstdint>

#include "tensor/layer_config.h"
#include "tensor/layer_weights.h"

namespace kv8 {

/// Constants of one PLE layer.
struct PleConstants {
  PleHash hash;                  // multipliers are odd, multiplier * vocab < 2^63; eos is not set
  std::int64_t rows = 0;         // sum of head_sizes
  std::int64_t padded_rows = 0;  // rows of the stored table
};

/// `ple_index` is the rank of the layer in PleConfig::layers: layers draw from one sequence of
/// primes and from one stream of multipliers. A validated PleConfig keeps row ids within 32 bits.
PleConstants DerivePleConstants(const PleConfig& ple, int vocab, int ple_index);

}  // namespace kv8
