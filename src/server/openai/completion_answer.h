// The answer to POST /v1/completions, whole or as a stream.
#pragma once

#include <memory>
#include <vector>

#include "server/engine_service.h"
#include "server/http/responder.h"
#include "server/openai/completion_request.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// What an answer needs beside the engine's events.
struct CompletionContext {
  std::shared_ptr<Responder> responder;
  const Tokenizer* tokenizer = nullptr;  // outlives the answer
  std::string model;                     // as it is called in answers
  CompletionRequest request;
  std::vector<std::vector<TokenId>> prompts;  // one per prompt when they are echoed
};

/// The choices of prompt p have the indices p * n to p * n + n - 1.
std::shared_ptr<GenerationSink> AnswerCompletion(CompletionContext context);

}  // namespace kv8::openai
