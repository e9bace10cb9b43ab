// The body of POST /v1/chat/completions.
#pragma once

#include <string>

#include "server/openai/conversation.h"
#include "server/openai/request_fields.h"
#include "server/openai/sampling_params.h"

namespace kv8::openai {

struct ChatRequest {
  std::string model;
  Conversation conversation;
  StreamParams streaming;
  LengthFields lengths{.prompt = "messages"};
};

/// `defaults` speak for sampling fields that are not set.
/// Errors: kInvalidArgument with the field that is wrong, kUnsupported for what kv8 does not do.
Result<ChatRequest> ParseChatRequest(const OrderedJson& body,
                                     const GenerationDefaults& defaults = {});

}  // namespace kv8::openai
