// "logprobs" of /v1/chat/completions: one object per token.
#pragma once

#include <span>

#include "base/json_writer.h"
#include "kv8/request.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...], "refusal": null}
void WriteChatLogprobs(JsonWriter& json, const Tokenizer& tokenizer,
                       std::span<const PositionLogprobs> tokens);

}  // namespace kv8::openai
