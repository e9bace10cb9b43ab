// The answer to POST /v1/chat/completions, whole or as a stream.
#pragma once

#include <memory>
#include <string>

#include "server/engine_service.h"
#include "server/http/responder.h"
#include "server/openai/answer_parser.h"
#include "server/openai/sampling_params.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// What an answer needs beside the engine's events.
struct ChatContext {
  std::shared_ptr<Responder> responder;
  const Tokenizer* tokenizer = nullptr;  // outlives the answer
  std::string model;                     // as it is called in answers
  StreamParams streaming;
  LengthFields lengths;
  int choices = 1;
  AnswerForm form;
  OrderedJson applied_defaults;  // of generation_config.json, by name
};

std::shared_ptr<GenerationSink> AnswerChat(ChatContext context);

}  // namespace kv8::openai
