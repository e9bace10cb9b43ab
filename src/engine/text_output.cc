#include "engine/text_output.h"

#include <utility>

namespace kv8 {

TextOutput::TextOutput(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stops_(std::move(stops)) {}

std::string_view TextOutput::Push(TokenId token) {
  const std::size_t begin = text_.size();
  Result<std::string> decoded = decoder_.Push(token);
  if (decoded.ok()) stops_.Push(*decoded, text_);
  return std::string_view(text_).substr(begin);
}

std::string_view TextOutput::Finish() {
  const std::size_t begin = text_.size();
  stops_.Push(decoder_.Finish(), text_);
  stops_.Flush(text_);
  return std::string_view(text_).substr(begin);
}

}  // namespace kv8
