#include "calib/corpus_line.h"

#include <fmt/format.h>

#include <limits>

#include "base/json_fields.h"
#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr std::string_view kLineRemedy =
    R"(write one JSON object a line: {"category": "code", "text": "..."})";

Error Bad(const std::string& where, std::string what) {
  return Error{Code::kCorrupt, std::move(what), where, std::string(kLineRemedy)};
}

Result<std::string> ReadText(const Json& value, const std::string& where) {
  if (!value.is_string()) return Bad(where, R"("text" is not a string)");
  if (value.get_ref<const std::string&>().empty()) return Bad(where, R"("text" is empty)");
  return value.get<std::string>();
}

Result<std::vector<TokenId>> ReadTokenIds(const Json& value, const std::string& where) {
  if (!value.is_array()) return Bad(where, R"("token_ids" is not an array)");
  if (value.empty()) return Bad(where, R"("token_ids" is empty)");
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    const auto token = AsTokenId(id);
    if (!token) {
      return Bad(where, fmt::format(R"("token_ids" element {} is not an integer from 0 to {})",
                                    ids.size(), std::numeric_limits<TokenId>::max()));
    }
    ids.push_back(*token);
  }
  return ids;
}

Result<std::string> ReadCategory(const Json& object, const std::string& where) {
  const auto found = object.find("category");
  if (found == object.end()) return std::string(kUncategorized);
  if (!found->is_string()) return Bad(where, R"("category" is not a string)");
  auto category = found->get<std::string>();
  if (category.empty() || category.size() > kMaxCategoryBytes) {
    return Bad(where, fmt::format(R"("category" has {} bytes; 1 to {} are allowed)",
                                  category.size(), kMaxCategoryBytes));
  }
  return category;
}

}  // namespace

Result<CorpusDocument> ParseCorpusLine(std::string_view line, const std::string& where) {
  if (const auto invalid = FirstInvalidUtf8(line)) {
    return Bad(where, fmt::format("not valid UTF-8 at byte {} of the line", *invalid));
  }
  auto parsed = ParseJson(line, where);
  if (!parsed.ok()) return Bad(where, parsed.error().what);
  const Json& object = *parsed;
  if (!object.is_object()) return Bad(where, "the line is not a JSON object");
  const auto text = object.find("text");
  const auto ids = object.find("token_ids");
  if (text == object.end() && ids == object.end()) {
    return Bad(where, R"(neither "text" nor "token_ids" is given)");
  }
  if (text != object.end() && ids != object.end()) {
    return Bad(where, R"(both "text" and "token_ids" are given)");
  }
  CorpusDocument document;
  KV8_ASSIGN_OR_RETURN(document.category, ReadCategory(object, where));
  if (text != object.end()) {
    KV8_ASSIGN_OR_RETURN(document.text, ReadText(*text, where));
  } else {
    KV8_ASSIGN_OR_RETURN(document.token_ids, ReadTokenIds(*ids, where));
  }
  return document;
}

}  // namespace kv8
