// What attention does under two cache types on the same tokens, and what the cache stores: layer by
// layer. Diagnostics: they decide nothing alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "proof/measurements.h"
#include "proof/verify.h"

namespace kv8 {

/// One layer under A and B.
struct LayerAttention {
  int layer = 0;
  std::uint64_t rows = 0;  // that were compared
  /// Of them, those that see more selection blocks than they may choose. The others choose all, so
  /// overlaps are about these alone.
  std::uint64_t choosing = 0;
  double jaccard = 0;      // of the chosen blocks, mean
  double recall = 0;       // share of A's blocks that B chose too, mean
  double cosine = 0;       // of the outputs, mean
  double relative_l2 = 0;  // |B - A| / |A| over all outputs
};

/// Scales that are tried, as multiples of those in use.
inline constexpr std::array<double, 3> kMargins = {1.00, 1.05, 1.10};

/// What an E4M3 cache gets of one layer's K or V, and makes of it.
struct StoredSide {
  int layer = 0;
  bool value = false;                                               // V, else K
  std::uint64_t values = 0;                                         // of each head
  std::vector<std::array<std::uint64_t, kMargins.size()>> clipped;  // per head, by margin
  /// By code without its sign; the last are NaN.
  std::array<std::uint64_t, 128> codes{};
};

struct AttentionResult {
  std::uint64_t tokens = 0;
  std::vector<LayerAttention> layers;
  std::vector<StoredSide> sides;  // under B; empty unless its cache is E4M3
};

Json ToJson(const AttentionResult& result);
/// Errors: kCorrupt, naming `where` and the key.
Result<AttentionResult> AttentionFromJson(const Json& json, const std::string& where);

/// Tokens that MeasureAttention runs, under A and B together.
std::uint64_t AttentionTokensOf(const std::vector<EvaluationItem>& items);

/// Runs the longest item of each category, up to 8,192 tokens of it, through the target under A and
/// B side by side, in passes of 128 rows. On the CPU whatever the engine's device: there alone a
/// pass shows its values. Errors: those of opening the model; kCancelled.
Result<AttentionResult> MeasureAttention(const VerifyOptions& options,
                                         const MeasuredCorpus& corpus);

}  // namespace kv8
