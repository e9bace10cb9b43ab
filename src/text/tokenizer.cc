#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/lfs_pointer.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/stream_decoder.h"
#include "text/unicode.h"

namespace kv8 {
namespace {

std::vector<std::string> BytesOf(std::span<const std::string> tokens) {
  std::vector<std::string> bytes;
  bytes.reserve(tokens.size());
  for (const std::string& token : tokens) bytes.push_back(ByteLevelBytes(token));
  return bytes;
}

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::filesystem::path& tokenizer_json) {
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(tokenizer_json, kMaxTokenizerJsonBytes));
  if (IsLfsPointer(text)) return LfsPointerError(tokenizer_json.string());
  KV8_ASSIGN_OR_RETURN(TokenizerDefinition definition,
                       ParseTokenizerJson(text, tokenizer_json.string()));
  return Tokenizer(std::move(definition));
}

Tokenizer::Tokenizer(TokenizerDefinition definition)
    : tokens_(std::move(definition.tokens)),
      bytes_(BytesOf(tokens_)),
      special_(tokens_.size(), false),
      added_(definition.added_tokens),
      bpe_(definition.byte_tokens, definition.merges, bytes_),
      split_(definition.split),
      longest_(1) {
  for (const std::string& bytes : bytes_) longest_ = std::max(longest_, bytes.size());
  for (const AddedToken& token : definition.added_tokens) special_[token.id] = token.special;
  Unicode::Get();  // builds the tables now rather than in the first request
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, std::size_t max_ids) const {
  return Encode(text, nullptr, max_ids);
}

Result<std::vector<TokenId>> Tokenizer::Encode(const MarkedText& text, std::size_t max_ids) const {
  return Encode(text.text(), &text, max_ids);
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, const MarkedText* authors,
                                               std::size_t max_ids) const {
  if (text.size() > kMaxTextBytes) {
    return Error{
        Code::kResourceExhausted,
        fmt::format("{} bytes; at most {} can be tokenized at once", text.size(), kMaxTextBytes),
        "text", "split the text"};
  }
  if (const auto invalid = FirstInvalidUtf8(text)) {
    return Error{Code::kInvalidArgument, fmt::format("not UTF-8 at byte {}", *invalid), "text",
                 "convert the text to UTF-8"};
  }
  std::vector<TokenId> ids;
  ids.reserve(std::min(text.size() / 4, max_ids));
  std::string storage;
  std::size_t at = 0;
  while (const auto match = added_.Find(text, at, authors)) {
    EncodePlain(text.substr(at, match->start - at), max_ids, storage, ids);
    if (ids.size() > max_ids) return ids;
    ids.push_back(match->id);
    at = match->end;
  }
  EncodePlain(text.substr(at), max_ids, storage, ids);
  return ids;
}

/// Appends the tokens of text without added tokens; `storage` is scratch space. Stops where there
/// must be more than `max_ids` of them, and leaves more than that.
void Tokenizer::EncodePlain(std::string_view text, std::size_t max_ids, std::string& storage,
                            std::vector<TokenId>& ids) const {
  const Unicode& unicode = Unicode::Get();
  PieceScanner pieces(unicode.Nfc(text, storage), *split_, unicode);
  for (std::string_view piece = pieces.Next(); !piece.empty(); piece = pieces.Next()) {
    // No token is longer than longest_: a piece of text becomes this many at least.
    if (ids.size() + (piece.size() - 1) / longest_ >= max_ids) return ids.resize(max_ids + 1);
    bpe_.Encode(piece, ids);
    if (ids.size() > max_ids) return;
  }
}

Result<std::string> Tokenizer::Decode(std::span<const TokenId> ids,
                                      bool skip_special_tokens) const {
  StreamDecoder decoder(*this, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) {
    KV8_ASSIGN_OR_RETURN(const std::string part, decoder.Push(id));
    text += part;
  }
  return text + decoder.Finish();
}

Result<void> Tokenizer::CheckId(TokenId id) const {
  if (0 <= id && static_cast<std::size_t>(id) < tokens_.size()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} is not a token; ids go from 0 to {}", id, tokens_.size() - 1),
               "token id", "use ids that this tokenizer made"};
}

}  // namespace kv8
