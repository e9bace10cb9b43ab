// One line of a corpus file: what it may say.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// Longest category name. Names are kept for the whole run and stand in the report.
inline constexpr std::size_t kMaxCategoryBytes = 256;

/// Category of documents that name none.
inline constexpr std::string_view kUncategorized = "uncategorized";

/// A document: either text or token ids, never both, never neither.
struct CorpusDocument {
  std::string category;
  std::string text;
  std::vector<TokenId> token_ids;  // filled instead of `text` when the line gives ids
};

/// Parses {"text": "..."} or {"token_ids": [...]}, with an optional "category". Other keys are
/// somebody else's and allowed. `where` names file and line in errors.
/// Errors, each naming the field: kCorrupt for invalid UTF-8 (with its byte), anything that is not
/// one strict JSON object, a missing, mistyped or empty document, both kinds of document, an id
/// that is not an integer from 0 to 2^31 - 1, a category that is no string of 1 to
/// kMaxCategoryBytes bytes.
Result<CorpusDocument> ParseCorpusLine(std::string_view line, const std::string& where);

}  // namespace kv8
