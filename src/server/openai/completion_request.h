// The body of POST /v1/completions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kv8/request.h"
#include "server/openai/request_fields.h"
#include "server/openai/sampling_params.h"
#include "server/openai/structured_output.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// Most prompts of one body.
inline constexpr std::size_t kMaxPrompts = 4096;

/// A prompt as it is sent: text, or token ids.
using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  std::string model;
  std::vector<PromptInput> prompts;
  Request common;                // everything but a prompt
  OrderedJson applied_defaults;  // of generation_config.json, by name
  OutputForm form;
  StreamParams streaming;
  bool echo = false;
  bool return_token_ids = false;
};

/// `defaults` speak for sampling fields that are not set.
/// Errors: kInvalidArgument with the field that is wrong, kUnsupported for what kv8 does not do.
Result<CompletionRequest> ParseCompletionRequest(const OrderedJson& body,
                                                 const GenerationDefaults& defaults = {});

/// One engine request per prompt. Errors: kInvalidArgument for one that is no text, or has more
/// than `max_ids` tokens.
Result<std::vector<Request>> EngineRequests(const CompletionRequest& parsed,
                                            const Tokenizer& tokenizer,
                                            std::size_t max_ids = Tokenizer::kNoLimit);

}  // namespace kv8::openai
