// The fields that every generating endpoint reads the same way.
#pragma once

#include <string>

#include "kv8/request.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

/// Reads temperature, top_p, top_k, min_p, the penalties, logit_bias, seed, n, stop,
/// stop_token_ids and ignore_eos. What a field does not say is as `defaults` have it, else as
/// OpenAI does: temperature 1, one choice, and a seed that nobody knows. Returns the defaults that
/// applied, by name. Ranges are the engine's to check. Errors: kInvalidArgument for a wrong type.
Result<OrderedJson> ReadSampling(const RequestFields& body, const GenerationDefaults& defaults,
                                 Request& request);

/// How the answer is to be sent.
struct StreamParams {
  bool stream = false;
  bool include_usage = false;  // a last chunk says what the request took
};
Result<StreamParams> ReadStream(const RequestFields& body);

/// What an endpoint, or a request, calls the fields that together must fit the context.
struct LengthFields {
  std::string_view prompt = "prompt";
  std::string_view max_tokens = "max_tokens";
};

/// An engine's error with the name that the field has in a request's body.
Error WithBodyField(Error error, const LengthFields& lengths = {});

}  // namespace kv8::openai
