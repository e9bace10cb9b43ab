// tokenizer.json: what it says, checked. Anything kv8 would not do exactly is refused by name.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"

namespace kv8 {

/// Largest tokenizer.json that is read; those of the known families are below 20 MiB.
inline constexpr std::size_t kMaxTokenizerJsonBytes = std::size_t{64} << 20;

/// A validated byte-level BPE tokenizer with NFC. Every id in it is below tokens.size().
struct TokenizerDefinition {
  std::vector<std::string> tokens;       // by id, as the vocabulary spells them
  std::array<TokenId, 256> byte_tokens;  // the token of each single byte
  std::vector<BpeMerge> merges;          // by rank
  std::vector<AddedToken> added_tokens;
  const SplitRule* split;
};

/// Parses and checks the text of a tokenizer.json; `file` names it in errors.
/// Errors, each naming file and field: kCorrupt (not JSON, missing or mistyped fields, ids that are
/// not 0..n-1 once each, merges of unknown tokens), kUnsupported (a component, option or expression
/// that kv8 does not implement), kResourceExhausted (text above kMaxTokenizerJsonBytes).
Result<TokenizerDefinition> ParseTokenizerJson(std::string_view text, std::string_view file);

}  // namespace kv8
