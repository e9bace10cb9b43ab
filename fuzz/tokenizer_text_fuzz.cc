// The bundled tokenizer on any bytes: invalid UTF-8 is refused, and everything else decodes to its
// NFC, at once and token by token. Run from the repository root.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

const kv8::Tokenizer& Bundled() {
  static const kv8::Tokenizer tokenizer =
      kv8::Tokenizer::Load("models/tiny-qwen4exp/tokenizer.json").value();
  return tokenizer;
}

/// NFC as the tokenizer applies it: added tokens are left alone and separate what is around them.
std::string Expected(const std::vector<kv8::TokenId>& ids, std::string_view text) {
  std::string out;
  std::string storage;
  std::size_t at = 0;
  for (const kv8::TokenId id : ids) {
    const std::string& token = Bundled().Bytes(id);
    if (Bundled().IdOf(token) != id) continue;
    const std::size_t found = text.find(token, at);
    Require(found != text.npos);
    out += kv8::Unicode::Get().Nfc(text.substr(at, found - at), storage);
    out += token;
    at = found + token.size();
  }
  return out.append(kv8::Unicode::Get().Nfc(text.substr(at), storage));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = Bundled().Encode(text);
  Require(ids.ok() == !kv8::FirstInvalidUtf8(text).has_value());
  kv8::LossyUtf8 lossy;
  std::string valid;
  lossy.Push(text, valid);
  lossy.Finish(valid);
  Require(!kv8::FirstInvalidUtf8(valid).has_value());
  Require((valid == text) == ids.ok());
  if (!ids.ok()) return 0;

  const auto decoded = Bundled().Decode(*ids);
  Require(decoded.ok() && *decoded == Expected(*ids, text));
  kv8::StreamDecoder decoder(Bundled());
  std::string streamed;
  for (const kv8::TokenId id : *ids) {
    const auto part = decoder.Push(id);
    Require(part.ok() && !kv8::FirstInvalidUtf8(*part).has_value());
    streamed += *part;
  }
  Require(streamed + decoder.Finish() == *decoded);
  return 0;
}
