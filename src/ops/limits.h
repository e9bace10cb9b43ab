// What the ops of each device can do: one table, checked when a model is loaded, so that no op
// relies on a limit that only a comment states.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kv8/error.h"
#include "kv8/types.h"
#include "tensor/model_spec.h"
#include "tensor/weight.h"

namespace kv8 {

/// The values of a dimension that an op has code for.
struct Values {
  std::int64_t min = 1;
  std::int64_t max = INT32_MAX;
  std::int64_t multiple_of = 1;
  std::array<std::int64_t, 3> one_of = {};  // unless the first is 0: no other value

  bool Hold(std::int64_t got) const;
  /// "1 to 4", "multiples of 32", "64, 128" and the like: for messages and the document.
  std::string Text() const;
};

/// What one op has for one field of a configuration.
struct Limit {
  std::string_view op;
  std::string_view field;                   // of config.json, or what is computed from fields
  std::int64_t (*value)(const ModelSpec&);  // -1 where the model has no such part
  Values has;
};

/// All limits of a device.
std::span<const Limit> LimitsOf(DeviceKind device);

/// How the matrices and tables of a model may be stored: every op of a device has the same formats.
std::span<const WeightFormat> WeightFormatsOf(DeviceKind device);
/// "BF16, F16 and F32" and the like: for messages and the document.
std::string WeightFormatsText(DeviceKind device);

/// Errors: kUnsupported for the first limit that `spec` passes, naming field, value and what
/// exists.
Result<void> CheckLimits(const ModelSpec& spec, DeviceKind device);

/// docs/kernels/limits.md as it follows from the tables.
std::string LimitsDocument();

}  // namespace kv8
