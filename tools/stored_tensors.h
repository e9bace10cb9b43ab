// What a checkpoint's tensors are: formats by owner, what is missing, what nobody asks for.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "family/checkpoint.h"
#include "kv8/error.h"

namespace kv8 {

struct TensorCount {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
using TensorCounts = std::map<std::string, TensorCount, std::less<>>;

struct TensorTotals {
  TensorCounts by_dtype;
  TensorCounts by_owner;
  TensorCount all;
};

TensorTotals TotalsOf(const Checkpoint& checkpoint);

/// Matrices of one owner and layout.
struct FormatTotals {
  std::string owner;
  std::string layout;  // "BF16", "ModelOpt NVFP4"
  int group = 0;       // columns that share a scale
  std::int64_t matrices = 0;
  std::int64_t weights = 0;  // elements
  std::int64_t bytes = 0;    // with their scales

  double bits_per_weight() const;
};

/// Every matrix, stacks of experts too.
std::vector<FormatTotals> FormatsOf(const Checkpoint& checkpoint);

/// "none", or the layouts but plain ones: "FP8 with one scale, ModelOpt NVFP4".
std::string QuantisationText(const std::vector<FormatTotals>& formats);

/// What binding the model would ask for and not find, and what it would not ask for.
struct TensorGaps {
  std::vector<std::string> missing;
  std::vector<std::string> extra;
};
TensorGaps GapsOf(const Checkpoint& checkpoint);

/// SHA-256 of a file, as `sha256sum` has it.
struct FileSum {
  std::filesystem::path file;
  std::string sha256;
  bool listed = false;  // in the SHA256SUMS beside it
};

/// Reads every shard. Errors: kMismatch for one that differs from the SHA256SUMS beside it; kIo.
Result<std::vector<FileSum>> VerifyFiles(const Checkpoint& checkpoint);

Json ToJson(const TensorCounts& groups);
Json ToJson(const std::vector<FormatTotals>& formats);
Json ToJson(const std::vector<FileSum>& sums);

}  // namespace kv8
