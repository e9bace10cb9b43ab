// What the endpoints of chats ask of the engine, before and after it is rendered.
#pragma once

#include "kv8/error.h"
#include "kv8/request.h"
#include "server/openai/answer_parser.h"
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
  Request common;                         // everything but prompt, constraint and cache points
  OrderedJson applied_defaults;           // of generation_config.json, by name
  std::string prompt_field = "messages";  // what the body calls the conversation
};

/// Reads "tools", "tool_choice" and "parallel_tool_calls".
/// Errors: kInvalidArgument with the field that is wrong, kUnsupported.
Result<void> ReadConversationTools(const RequestFields& body, Conversation& conversation);

struct PreparedRequest {
  Request request;
  OrderedJson applied_defaults;  // a limit to the answer too
  AnswerForm form;               // how its answer is read
};

/// The request that the engine takes. Stop strings are left to the reader of the answer, as they
/// mean its content only. Errors: those of PrepareChat and ConstrainAnswer.
Result<PreparedRequest> Prepare(const ApiContext& context, const Conversation& conversation);

}  // namespace kv8::openai
