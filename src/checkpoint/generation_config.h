// generation_config.json: which tokens end a generation, and how its publisher samples.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/request.h"
#include "kv8/types.h"

namespace kv8 {

/// `eos_token_id`, one id or a list; empty when the key is absent or null.
/// Errors: kCorrupt, naming the key, for another type or an id outside [0, vocab).
Result<std::vector<TokenId>> ParseStopIds(const Json& json, int vocab, std::string_view where);

/// Everything else that changes what is generated. Errors: kCorrupt, naming the key, for a value of
/// another type or outside of the range that Request allows.
Result<GenerationDefaults> ParseGenerationDefaults(const Json& json, std::string_view where);

}  // namespace kv8
