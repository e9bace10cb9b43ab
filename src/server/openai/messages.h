// The messages and tools of a conversation, checked and brought into the form that templates
// expect.
#pragma once

#include <string>

#include "base/ordered_json.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

/// "messages": at least one, each with a role that templates know; the content a string, null or
/// text parts, which become one string; the arguments of calls objects. Further fields stay as they
/// are.
/// Errors: kInvalidArgument; kUnsupported for images, sound and files.
Result<OrderedJson> ReadMessages(const RequestFields& body);

/// A message's content as one string; null stays null. Errors: as ReadMessages.
Result<OrderedJson> ReadContent(const OrderedJson& content, const std::string& path);

/// "tools": functions with a name and, if they have parameters, an object that describes them;
/// null when there are none. The form of /v1/responses, without "function", becomes that of chats.
Result<OrderedJson> ReadTools(const RequestFields& body);

}  // namespace kv8::openai
