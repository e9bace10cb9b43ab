#include "server/openai/completion_logprobs.h"

#include <algorithm>

#include "base/utf8.h"
#include "server/openai/token_logprob.h"
#include "text/unicode.h"

namespace kv8::openai {
namespace {

/// The tokenizer reads the NFC form of a text. Entry i: the characters of `text` before character i
/// of the form. Empty where the two are the same. A character that NFC makes of several stands
/// where they begin; of several made of one, those behind the first stand where it ends.
std::vector<std::size_t> PlacesBeforeNfc(std::string_view text) {
  const Unicode& unicode = Unicode::Get();
  std::string storage;
  std::vector<std::size_t> places;
  if (unicode.Nfc(text, storage) == text) return places;
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size();) {
    // A character, and those behind it that NFC may merge with it.
    const std::size_t begin = at;
    std::size_t count = 0;
    do {
      at += ReadUtf8(text, at).length;
      ++count;
    } while (at < text.size() && (unicode.ClassOf(ReadUtf8(text, at).code_point) & kNfcActive));
    const std::string_view part = text.substr(begin, at - begin);
    const std::size_t made = CountCharacters(unicode.Nfc(part, storage));
    for (std::size_t i = 0; i < made; ++i) places.push_back(characters + std::min(i, count));
    characters += count;
  }
  return places;
}

}  // namespace

CompletionLogprobs::CompletionLogprobs(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), decoder_(tokenizer, /*skip_special_tokens=*/true) {}

void CompletionLogprobs::AddPrompt(std::string_view echoed, std::span<const TokenId> ids,
                                   std::span<const PositionLogprobs> logprobs) {
  const std::vector<std::size_t> places = PlacesBeforeNfc(echoed);
  const std::size_t end = CountCharacters(echoed);
  StreamDecoder decoder(*tokenizer_);
  std::size_t decoded = 0;  // characters
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t place = decoded < places.size() ? places[decoded] : decoded;
    Entry entry{.token = ids[i], .offset = std::min(place, end), .known = i > 0, .logprobs = {}};
    if (entry.known && i <= logprobs.size()) entry.logprobs = logprobs[i - 1];
    entries_.push_back(std::move(entry));
    if (const auto text = decoder.Push(ids[i]); text.ok()) decoded += CountCharacters(*text);
  }
  characters_ = end;
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
