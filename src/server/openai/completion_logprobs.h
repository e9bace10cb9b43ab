// "logprobs" of one choice of /v1/completions: parallel arrays over its tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "kv8/request.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// Collects tokens and writes those that were not written yet.
class CompletionLogprobs {
 public:
  /// `tokenizer` must outlive the object.
  explicit CompletionLogprobs(const Tokenizer& tokenizer);

  /// An echoed prompt, before any Add: the text that is shown, and its ids. `logprobs` has one
  /// entry per token but the first, whose probability nothing tells.
  void AddPrompt(std::string_view echoed, std::span<const TokenId> ids,
                 std::span<const PositionLogprobs> logprobs);
  void Add(const PositionLogprobs& token);

  /// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. An offset counts the characters
  /// of the choice's text before the token; a stop string that was cut off counts as if shown.
  void WriteTo(JsonWriter& json);

 private:
  struct Entry {
    TokenId token = 0;
    std::size_t offset = 0;
    bool known = true;  // else the rest means nothing
    PositionLogprobs logprobs;
  };

  void WriteTop(JsonWriter& json, const Entry& entry) const;

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;  // as the engine decodes a choice
  std::size_t characters_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace kv8::openai
