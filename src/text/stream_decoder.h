// Text of tokens as they come, one by one.
#pragma once

#include <string>

#include "base/utf8.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

class Tokenizer;

/// Decodes one sequence. What Push and Finish return, concatenated, equals Tokenizer::Decode of the
/// whole sequence, and every part of it is valid UTF-8: a character whose bytes come in several
/// tokens is returned with its last one.
class StreamDecoder {
 public:
  /// `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = false)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  /// The text that `id` completes, maybe empty.
  /// Errors: kInvalidArgument for an id outside of the vocabulary; the decoder is unchanged.
  Result<std::string> Push(TokenId id);

  /// Ends the sequence: U+FFFD for a character that was left unfinished, else nothing. The decoder
  /// can then be used for another sequence.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  LossyUtf8 utf8_;
};

}  // namespace kv8
