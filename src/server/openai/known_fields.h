// Every field of a request's body that clients of this and of other servers send, and what becomes
// of it: the one table that requests, docs/guide/api-fields.md and tests go by.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/openai/request_fields.h"

namespace kv8::openai {

/// The endpoints with a body, as bits.
enum EndpointBit : unsigned {
  kChat = 1,         // /v1/chat/completions
  kCompletions = 2,  // /v1/completions
  kResponses = 4,    // /v1/responses
  kTokenize = 8,     // /tokenize
  kDetokenize = 16,  // /detokenize
};

enum class FieldUse {
  kRead,     // does what `note` says
  kRefused,  // would change the answer: 400, but for values that ask for nothing
  kIgnored,  // does not change the answer, for the reason that `note` gives
};

struct KnownField {
  std::string_view name;  // a dot leads into an object
  unsigned endpoints;     // EndpointBits
  FieldUse use;
  /// JSON. kRead and kIgnored: a value that is taken. kRefused: an array of the values that ask for
  /// nothing.
  std::string_view good;
  std::string_view bad;   // JSON: a value that is refused; empty for kIgnored
  std::string_view note;  // kRefused: what to do instead, if there is something
};

/// At most one row for a name at an endpoint.
std::span<const KnownField> KnownFields();

/// Errors: kUnsupported about the first field of `body` that the endpoint refuses.
Result<void> RefuseUnsupported(const RequestFields& body, EndpointBit endpoint);

/// The names in `body` that the endpoint does not know, separated by commas, cut off where they are
/// many. Control characters may be among them.
std::string UnknownFields(const OrderedJson& body, EndpointBit endpoint);

}  // namespace kv8::openai
