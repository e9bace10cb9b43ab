// Text of one choice as its tokens come, cut at the first stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Special tokens are left out of the text. Text that may turn out to begin a stop string is held
/// back until that is decided.
class TextOutput {
 public:
  /// `tokenizer` must outlive the output.
  TextOutput(const Tokenizer& tokenizer, std::vector<std::string> stops);

  /// Returns what became final; valid until the next call. Ids outside the tokenizer's vocabulary
  /// (a model may have more rows) have no text.
  std::string_view Push(TokenId token);
  /// Ends the sequence: returns what was held back.
  std::string_view Finish();

  /// The stop string that was met; nullptr before. Nothing of it, or after it, is in the text.
  const std::string* stop() const { return stop_; }
  /// All final text so far.
  const std::string& text() const { return text_; }

 private:
  std::string_view Release();
  std::size_t HeldBack() const;

  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string text_;
  std::string pending_;
  const std::string* stop_ = nullptr;
};

}  // namespace kv8
