// "input" and "instructions" of POST /v1/responses as the messages of a chat.
#pragma once

#include "base/ordered_json.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

/// "input" is a string, the user's message, or an array of items: messages, earlier calls, their
/// outputs and earlier reasoning. "instructions" come first, as a system message.
/// Errors: kInvalidArgument; kUnsupported for items and parts that are not text.
Result<OrderedJson> ReadResponsesInput(const RequestFields& body);

}  // namespace kv8::openai
