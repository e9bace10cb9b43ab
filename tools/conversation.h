// Conversations of the command line, through a checkpoint's chat template.
#pragma once

#include <string>
#include <string_view>

#include "kv8/error.h"
#include "text/chat_template.h"

namespace kv8 {

/// `text` as one user's message, and the opening of the answer. Errors: those of Render.
Result<MarkedText> RenderUserMessage(const ChatTemplate& chat, std::string_view text);

/// A conversation in JSON: a list of messages, or an object with `messages` and, as requests to a
/// server have them, `tools`, `add_generation_prompt` and `chat_template_kwargs`. `where` names the
/// source in errors. Errors: kCorrupt; those of Render.
Result<MarkedText> RenderConversation(const ChatTemplate& chat, std::string_view json,
                                      std::string_view where);

}  // namespace kv8
