// The answer to POST /v1/responses, whole or as a stream of typed events.
#pragma once

#include <memory>
#include <string>

#include "base/ordered_json.h"
#include "server/engine_service.h"
#include "server/http/responder.h"
#include "server/openai/answer_parser.h"

namespace kv8::openai {

/// What an answer needs beside the engine's events.
struct ResponsesContext {
  std::shared_ptr<Responder> responder;
  std::string model;
  bool stream = false;
  OrderedJson repeated;  // fields of the request that the answer repeats
  AnswerForm form;
  OrderedJson applied_defaults;  // of generation_config.json, by name
};

std::shared_ptr<GenerationSink> AnswerResponses(ResponsesContext context);

}  // namespace kv8::openai
