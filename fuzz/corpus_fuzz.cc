// ParseCorpusLine on any line: no crash, and an accepted document is exactly one kind, never empty,
// and valid UTF-8.
#include <cstdint>
#include <cstdlib>

#include "base/utf8.h"
#include "calib/corpus_line.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document =
      kv8::ParseCorpusLine({reinterpret_cast<const char*>(data), size}, "input:1");
  if (!document.ok()) {
    Require(document.error().where == "input:1" && !document.error().what.empty());
    return 0;
  }
  Require(document->text.empty() != document->token_ids.empty());
  Require(!document->category.empty() && document->category.size() <= kv8::kMaxCategoryBytes);
  Require(!kv8::FirstInvalidUtf8(document->text) && !kv8::FirstInvalidUtf8(document->category));
  for (const kv8::TokenId id : document->token_ids) Require(id >= 0);
  return 0;
}
