#include "server/openai/chat_logprobs.h"

#include "server/openai/token_logprob.h"

namespace kv8::openai {
namespace {

/// The members of one token, into an open object.
void WriteToken(JsonWriter& json, const Tokenizer& tokenizer, const TokenLogprob& token) {
  json.Key("token").String(TokenText(tokenizer, token.token));
  json.Key("logprob").Number(Logprob(token)).Key("bytes").BeginArray();
  for (const char byte : TokenBytes(tokenizer, token.token)) {
    json.Integer(static_cast<unsigned char>(byte));
  }
  json.EndArray();
}

}  // namespace

void WriteChatLogprobs(JsonWriter& json, const Tokenizer& tokenizer,
                       std::span<const PositionLogprobs> tokens) {
  json.BeginObject().Key("content").BeginArray();
  for (const PositionLogprobs& token : tokens) {
    json.BeginObject();
    WriteToken(json, tokenizer, token.chosen);
    json.Key("top_logprobs").BeginArray();
    for (const TokenLogprob& other : token.top) {
      json.BeginObject();
      WriteToken(json, tokenizer, other);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

}  // namespace kv8::openai
