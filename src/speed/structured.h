// Requests whose output must fit a JSON schema.
#pragma once

#include <cstdint>
#include <optional>

#include "kv8/error.h"
#include "speed/prompts.h"
#include "speed/target.h"

namespace kv8 {

struct StructuredTimes {
  double tokens_per_second = 0;  // all requests, from the first to the last token
  std::int64_t requests = 0;
  std::int64_t valid = 0;  // outputs that are complete JSON
  std::optional<double> acceptance;
};

/// Most tokens of an output.
inline constexpr std::int64_t kRecordTokens = 256;
/// Tokens of each prompt.
inline constexpr std::int64_t kRecordPrompt = 64;

/// `sequences` requests at once, each for an object with a name, a number, a kind and a truth.
/// Errors: those of the target.
Result<StructuredTimes> MeasureStructured(SpeedTarget& target, PromptSource& prompts,
                                          std::int64_t sequences);

}  // namespace kv8
