// What requests took, as clients are told.
#pragma once

#include <span>

#include "base/json_writer.h"
#include "kv8/request.h"

namespace kv8::openai {

/// Sum over the completions of one answer.
Usage TotalUsage(std::span<const Completion> completions);

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}, and
/// "completion_tokens_details" when reasoning tokens were counted.
void WriteUsage(JsonWriter& json, const Usage& usage, std::int64_t reasoning_tokens = 0);

}  // namespace kv8::openai
