#include "engine/text_output.h"

#include <algorithm>
#include <utility>

namespace kv8 {

TextOutput::TextOutput(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stops_(std::move(stops)) {}

std::string_view TextOutput::Push(TokenId token) {
  Result<std::string> decoded = decoder_.Push(token);
  if (decoded.ok()) pending_ += *decoded;
  return Release();
}

std::string_view TextOutput::Finish() {
  if (stop_ != nullptr) return {};
  pending_ += decoder_.Finish();
  const std::string_view released = Release();
  if (stop_ != nullptr) return released;
  const std::size_t begin = text_.size() - released.size();
  text_ += pending_;
  pending_.clear();
  return std::string_view(text_).substr(begin);
}

/// Moves what is decided from pending to the text.
std::string_view TextOutput::Release() {
  const std::size_t begin = text_.size();
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = pending_.find(stop);
    if (at < first) {
      first = at;
      stop_ = &stop;
    }
  }
  const std::size_t count = stop_ != nullptr ? first : pending_.size() - HeldBack();
  text_.append(pending_, 0, count);
  pending_.erase(0, count);
  return std::string_view(text_).substr(begin);
}

/// Length of the longest end of the pending text that begins a stop string.
std::size_t TextOutput::HeldBack() const {
  const std::string_view pending(pending_);
  std::size_t longest = 0;
  for (const std::string_view stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, pending.size()); n > longest; --n) {
      if (stop.starts_with(pending.substr(pending.size() - n))) longest = n;
    }
  }
  return longest;
}

}  // namespace kv8
