// ParseTokenizerJson on any text: no crash, no hang, and what it accepts makes a tokenizer whose
// ids it can decode itself.
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "text/tokenizer.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto definition =
      kv8::ParseTokenizerJson({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
  if (!definition.ok()) {
    Require(definition.error().where.starts_with("tokenizer.json"));
    return 0;
  }
  const kv8::Tokenizer tokenizer(std::move(*definition));
  const auto ids = tokenizer.Encode("It's 12 o'clock: 12:00\n\xE4\xB8\xAD");
  Require(ids.ok());
  for (const kv8::TokenId id : *ids) Require(tokenizer.CheckId(id).ok());
  Require(tokenizer.Decode(*ids).ok());
  return 0;
}
