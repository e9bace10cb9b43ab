// The largest calls of the ops, which is what their scratch depends on.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/layer_config.h"

namespace kv8 {

/// What one model calls its ops with, at most. Zero dimensions mean that an op is not called.
struct OpSizes {
  int threads = 1;
  std::int64_t rows = 0;                       // of a batch
  std::int64_t sequences = 0;                  // of a batch
  std::int64_t sequence_selection_blocks = 0;  // selection blocks of the longest sequence
  std::int64_t linear_rows = 0;                // of Linear's inputs
  std::int64_t linear_cols = 0;
  std::int64_t hidden = 0;
  std::int64_t streams = 0;
  std::int64_t lowrank = 0;  // of hyper-connections
  GdnConfig gdn;
  QsaConfig qsa;
  MoeConfig moe;
  std::optional<PleConfig> ple;
};

}  // namespace kv8
