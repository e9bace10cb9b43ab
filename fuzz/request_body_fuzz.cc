// Bodies of requests: any bytes give what an endpoint works with, or an error that names a field;
// what an answer repeats of a request is JSON.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "grammar/call_grammar.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/responses_request.h"

namespace {

using namespace kv8;
using namespace kv8::openai;

void CheckError(const Error& error) {
  if (error.code != Code::kInvalidArgument && error.code != Code::kUnsupported) std::abort();
  if (error.what.empty()) std::abort();
}

void CheckConversation(const Conversation& conversation) {
  if (!conversation.input.messages.is_array() || conversation.input.messages.empty()) std::abort();
  if (!conversation.input.tools.is_null()) {
    (void)CompileCalls(conversation.input.tools, "", CallSchemas::kAll);
  }
  std::string text;
  for (const OrderedJson& message : conversation.input.messages) {
    text.clear();
    AppendJsonString(text, message["role"].get<std::string>());
    if (OrderedJson::parse(text) != message["role"]) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = ParseBody(text);
  if (!body.ok()) {
    CheckError(body.error());
    return 0;
  }
  if (const auto parsed = ParseCompletionRequest(*body); !parsed.ok()) CheckError(parsed.error());
  if (const auto parsed = ParseChatRequest(*body); parsed.ok()) {
    CheckConversation(parsed->conversation);
  } else {
    CheckError(parsed.error());
  }
  if (const auto parsed = ParseResponsesRequest(*body); parsed.ok()) {
    CheckConversation(parsed->conversation);
    if (!OrderedJson::accept(parsed->repeated.dump())) std::abort();
  } else {
    CheckError(parsed.error());
  }
  return 0;
}
