#include "server/openai/completion_logprobs.h"

#include <algorithm>

#include "server/openai/token_logprob.h"

namespace kv8::openai {

CompletionLogprobs::CompletionLogprobs(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), decoder_(tokenizer, /*skip_special_tokens=*/true) {}

void CompletionLogprobs::AddPrompt(std::span<const TokenId> ids,
                                   std::span<const PositionLogprobs> logprobs) {
  StreamDecoder decoder(*tokenizer_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Entry entry{.token = ids[i], .offset = characters_, .known = i > 0, .logprobs = {}};
    if (entry.known && i <= logprobs.size()) entry.logprobs = logprobs[i - 1];
    entries_.push_back(std::move(entry));
    if (const auto text = decoder.Push(ids[i]); text.ok()) characters_ += CountCharacters(*text);
  }
  characters_ += CountCharacters(decoder.Finish());
}

void CompletionLogprobs::Add(const PositionLogprobs& token) {
  const TokenId id = token.chosen.token;
  entries_.push_back({.token = id, .offset = characters_, .known = true, .logprobs = token});
  if (const auto text = decoder_.Push(id); text.ok()) characters_ += CountCharacters(*text);
}

void CompletionLogprobs::WriteTo(JsonWriter& json) {
  json.BeginObject().Key("tokens").BeginArray();
  for (const Entry& entry : entries_) json.String(TokenText(*tokenizer_, entry.token));
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const Entry& entry : entries_) {
    if (entry.known) {
      json.Number(Logprob(entry.logprobs.chosen));
    } else {
      json.Null();
    }
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const Entry& entry : entries_) WriteTop(json, entry);
  json.EndArray().Key("text_offset").BeginArray();
  for (const Entry& entry : entries_) json.Integer(static_cast<std::int64_t>(entry.offset));
  json.EndArray().EndObject();
  entries_.clear();
}

/// The best tokens, and the one that was chosen if it is none of them.
void CompletionLogprobs::WriteTop(JsonWriter& json, const Entry& entry) const {
  if (!entry.known) {
    json.Null();
    return;
  }
  const TokenLogprob& chosen = entry.logprobs.chosen;
  const std::vector<TokenLogprob>& top = entry.logprobs.top;
  json.BeginObject();
  for (const TokenLogprob& token : top) {
    json.Key(TokenText(*tokenizer_, token.token)).Number(Logprob(token));
  }
  const auto is_chosen = [&](const TokenLogprob& token) { return token.token == chosen.token; };
  if (std::none_of(top.begin(), top.end(), is_chosen)) {
    json.Key(TokenText(*tokenizer_, chosen.token)).Number(Logprob(chosen));
  }
  json.EndObject();
}

}  // namespace kv8::openai
