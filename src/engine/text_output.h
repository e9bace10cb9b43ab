// Text of one choice as its tokens come, cut at the first stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/stop_strings.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Special tokens are left out of the text. Text that may turn out to begin a stop string is held
/// back until that is decided (see StopStrings).
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
  const std::string* stop() const { return stops_.met(); }
  /// All final text so far.
  const std::string& text() const { return text_; }

 private:
  StreamDecoder decoder_;
  StopStrings stops_;
  std::string text_;
};

}  // namespace kv8
