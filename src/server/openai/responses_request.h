// The body of POST /v1/responses.
#pragma once

#include <string>

#include "server/openai/conversation.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

struct ResponsesRequest {
  std::string model;
  Conversation conversation;
  bool stream = false;
  /// What the answer repeats of the request: its fields by name, with what holds when they are not
  /// given.
  OrderedJson repeated;
};

/// Nothing is stored: "store" has no effect, and what needs an earlier answer is refused.
/// `defaults` speak for sampling fields that are not set.
/// Errors: kInvalidArgument with the field that is wrong, kUnsupported for what kv8 does not do.
Result<ResponsesRequest> ParseResponsesRequest(const OrderedJson& body,
                                               const GenerationDefaults& defaults = {});

}  // namespace kv8::openai
