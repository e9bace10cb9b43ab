// Text <-> token ids, as the checkpoint's tokenizer.json defines them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"

namespace kv8 {

/// Longest text that Encode takes: more than any context holds. Bounds its memory.
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

/// Byte-level BPE with NFC. Token ids equal those of the `tokenizers` library for every input.
/// Immutable: const members may be called from any number of threads at once.
class Tokenizer {
 public:
  static constexpr std::size_t kNoLimit = ~std::size_t{0};

  /// Reads a tokenizer.json. Errors: those of ReadFile and ParseTokenizerJson.
  static Result<Tokenizer> Load(const std::filesystem::path& tokenizer_json);

  explicit Tokenizer(TokenizerDefinition definition);
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  /// Token ids of `text`. Added tokens are recognised in it, special ones included.
  /// Stops where there are certainly more than `max_ids`: then the result has more than that, and
  /// is not the whole. Errors: kInvalidArgument with the offset of the first byte that is not
  /// UTF-8; kResourceExhausted above kMaxTextBytes.
  Result<std::vector<TokenId>> Encode(std::string_view text, std::size_t max_ids = kNoLimit) const;

  /// The same for a rendered conversation: control tokens are recognised only where the template
  /// wrote them, other added tokens (markers such as <think>) there and in the model's own turns.
  /// Elsewhere they are text like any other.
  Result<std::vector<TokenId>> Encode(const MarkedText& text, std::size_t max_ids = kNoLimit) const;

  /// Text of `ids`; bytes that do not form characters become U+FFFD.
  /// Errors: kInvalidArgument for an id outside of the vocabulary.
  Result<std::string> Decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;

  /// Number of tokens; valid ids are 0 to this less one. A model may have more rows than that.
  std::size_t vocab_size() const { return tokens_.size(); }

  /// kInvalidArgument unless `id` is in the vocabulary.
  Result<void> CheckId(TokenId id) const;

  // The accessors below take an id that CheckId accepts.

  /// The token as the vocabulary spells it: printable, in the byte-level alphabet.
  const std::string& Spelling(TokenId id) const { return tokens_[id]; }
  /// The bytes it stands for; not always whole characters.
  const std::string& Bytes(TokenId id) const { return bytes_[id]; }
  /// Whether it is a control token, which decoding may leave out.
  bool IsSpecial(TokenId id) const { return special_[id]; }

  /// Id of the added token, special or not, with exactly this content.
  std::optional<TokenId> IdOf(std::string_view content) const { return added_.IdOf(content); }

 private:
  Result<std::vector<TokenId>> Encode(std::string_view text, const MarkedText* authors,
                                      std::size_t max_ids) const;
  void EncodePlain(std::string_view text, std::size_t max_ids, std::string& storage,
                   std::vector<TokenId>& ids) const;

  std::vector<std::string> tokens_;
  std::vector<std::string> bytes_;
  std::vector<bool> special_;
  AddedTokens added_;
  Bpe bpe_;
  const SplitRule* split_;
  std::size_t longest_;  // bytes of a token
};

}  // namespace kv8
