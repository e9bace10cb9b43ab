// What the endpoints of chats ask of the engine, before and after it is rendered.
#pragma once

#include "kv8/error.h"
#include "kv8/request.h"
#include "server/openai/api_context.h"
#include "server/openai/structured_output.h"
#include "server/openai/template_fields.h"
#include "server/openai/tool_choice.h"
#include "text/chat_template.h"

namespace kv8::openai {

struct Conversation {
  ChatInput input;  // without variables
  TemplateFields template_fields;
  ToolChoice tool_choice;
  OutputForm form;
  Request common;                // everything but prompt, constraint and cache points
  OrderedJson applied_defaults;  // of generation_config.json, by name
};

/// Reads "tools", "tool_choice" and "parallel_tool_calls".
/// Errors: kInvalidArgument with the field that is wrong, kUnsupported.
Result<void> ReadConversationTools(const RequestFields& body, Conversation& conversation);

struct PreparedRequest {
  Request request;
  OrderedJson applied_defaults;  // a limit to the answer too
  bool reasoning_open = false;   // the prompt ends inside a block of reasoning
};

/// The request that the engine takes. Errors: those of PrepareChat and ConstrainAnswer.
Result<PreparedRequest> Prepare(const ApiContext& context, const Conversation& conversation);

}  // namespace kv8::openai
