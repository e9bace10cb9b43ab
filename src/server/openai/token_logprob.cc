#include "server/openai/token_logprob.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"

namespace kv8::openai {

std::string_view TokenBytes(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.CheckId(id).ok() ? std::string_view(tokenizer.Bytes(id)) : std::string_view();
}

std::string TokenText(const Tokenizer& tokenizer, TokenId id) {
  if (!tokenizer.CheckId(id).ok()) return fmt::format("token_id:{}", id);
  const std::string& bytes = tokenizer.Bytes(id);
  if (!FirstInvalidUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

float Logprob(const TokenLogprob& token) {
  return std::max(token.logprob, -9999.0F);
}

std::size_t CountCharacters(std::string_view text) {
  const auto starts_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

}  // namespace kv8::openai
