// What requests took, as clients are told.
#pragma once

#include <span>

#include "base/json_writer.h"
#include "base/ordered_json.h"
#include "kv8/request.h"

namespace kv8::openai {

/// Sum over the completions of one answer.
Usage TotalUsage(std::span<const Completion> completions);

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"},
/// "completion_tokens_details" when reasoning tokens were counted, and AddDefaults.
void WriteUsage(JsonWriter& json, const Usage& usage, const OrderedJson& applied_defaults,
                std::int64_t reasoning_tokens = 0);

/// A member "generation_config" with the defaults of the checkpoint that applied, if any did.
void AddDefaults(JsonWriter& json, const OrderedJson& applied_defaults);

}  // namespace kv8::openai
