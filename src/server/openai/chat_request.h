// The body of POST /v1/chat/completions.
#pragma once

#include <string>

#include "kv8/request.h"
#include "server/openai/request_fields.h"
#include "server/openai/sampling_params.h"
#include "server/openai/structured_output.h"
#include "server/openai/tool_choice.h"
#include "text/chat_template.h"

namespace kv8::openai {

struct ChatRequest {
  std::string model;
  ChatInput input;
  Request common;  // everything but the prompt
  ToolChoice tool_choice;
  OutputForm form;
  StreamParams streaming;
};

/// Errors: kInvalidArgument with the field that is wrong, kUnsupported for what kv8 does not do.
Result<ChatRequest> ParseChatRequest(const OrderedJson& body);

/// "chat_template_kwargs": variables of the template. Errors: kInvalidArgument, also for names that
/// belong to the request itself.
Result<OrderedJson> ReadTemplateVariables(const RequestFields& body);

}  // namespace kv8::openai
