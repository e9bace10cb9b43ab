// A conversation as the prompt of an engine request.
#pragma once

#include <cstdint>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "server/openai/api_context.h"
#include "server/openai/template_fields.h"
#include "text/chat_template.h"

namespace kv8::openai {

struct ChatPrompt {
  std::vector<TokenId> ids;
  std::vector<std::int64_t> cache_points;
  bool reasoning_open = false;  // it ends inside the reasoning
};

/// Renders and tokenizes. `input` has no variables and no ending yet: those are what `fields` says.
/// Errors: kUnsupported without a template; kInvalidArgument about "messages" for what the template
/// refuses, and about a field that cannot have its effect; kTooLong for more than `max_ids` tokens,
/// which are not all made; kCancelled.
Result<ChatPrompt> PrepareChat(const ApiContext& context, ChatInput input,
                               const TemplateFields& fields,
                               std::size_t max_ids = Tokenizer::kNoLimit);

}  // namespace kv8::openai
