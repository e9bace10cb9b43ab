// What the ops of each device can do: one table, checked when a model is loaded. No op reads memory
// on the strength of a comment.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kv8/error.h"
#include "kv8/types.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// What one op has for one field of a configuration.
struct Limit {
  std::string_view op;
  std::string_view field;                   // of config.json, or what is computed from fields
  std::int64_t (*value)(const ModelSpec&);  // -1 where the model has no such part
  std::int64_t min = 1;
  std::int64_t max = INT32_MAX;
  std::int64_t multiple_of = 1;
  std::array<std::int64_t, 3> one_of = {};  // unless the first is 0: no other value

  bool Holds(std::int64_t got) const;
  /// "1 to 4", "multiples of 32", "64, 128": for messages and the document.
  std::string Text() const;
};

/// All limits of a device.
std::span<const Limit> LimitsOf(DeviceKind device);

/// Errors: kUnsupported for the first limit that `spec` passes, naming field, value and what
/// exists.
Result<void> CheckLimits(const ModelSpec& spec, DeviceKind device);

/// docs/kernels/limits.md as it follows from the tables.
std::string LimitsDocument();

}  // namespace kv8
