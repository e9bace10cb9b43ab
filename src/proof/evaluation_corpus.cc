#include "proof/evaluation_corpus.h"

#include <utility>

#include "base/json.h"

namespace kv8 {
namespace {

Error Bad(const std::string& where, std::string what) {
  return Error{Code::kCorrupt, std::move(what), where,
               R"(write {"text": "...", "answer": "...", "depth": 0.5} or leave the keys out)"};
}

Result<std::optional<std::string>> OptionalText(const Json& object, const char* key,
                                                const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) return std::optional<std::string>();
  if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
    return Bad(where, "\"" + std::string(key) + "\" is not a string of one byte or more");
  }
  return std::optional(found->get<std::string>());
}

Result<std::vector<TokenId>> IdsOf(CorpusDocument document, const Tokenizer& tokenizer,
                                   const std::string& where) {
  if (document.token_ids.empty()) return tokenizer.Encode(document.text);
  for (const TokenId id : document.token_ids) {
    if (const auto known = tokenizer.CheckId(id); !known.ok()) {
      return Error{Code::kInvalidArgument, known.error().what, where, known.error().remedy};
    }
  }
  return std::move(document.token_ids);
}

Result<EvaluationItem> Tokenised(EvaluationLine line, const Tokenizer& tokenizer,
                                 const std::string& where) {
  EvaluationItem item{.category = line.document.category,
                      .ids = {},
                      .answer_ids = {},
                      .answer = std::move(line.answer),
                      .tool = std::move(line.tool),
                      .depth = line.depth};
  KV8_ASSIGN_OR_RETURN(item.ids, IdsOf(std::move(line.document), tokenizer, where));
  if (item.answer) {
    KV8_ASSIGN_OR_RETURN(item.answer_ids, tokenizer.Encode(*item.answer));
  }
  return item;
}

}  // namespace

Result<EvaluationLine> ParseEvaluationLine(std::string_view line, const std::string& where) {
  EvaluationLine parsed;
  KV8_ASSIGN_OR_RETURN(parsed.document, ParseCorpusLine(line, where));
  KV8_ASSIGN_OR_RETURN(const Json object, ParseJson(line, where));
  KV8_ASSIGN_OR_RETURN(parsed.answer, OptionalText(object, "answer", where));
  KV8_ASSIGN_OR_RETURN(parsed.tool, OptionalText(object, "tool", where));
  if (const auto depth = object.find("depth"); depth != object.end()) {
    if (!depth->is_number() || !(depth->get<double>() >= 0 && depth->get<double>() <= 1)) {
      return Bad(where, R"("depth" is not a number from 0 to 1)");
    }
    parsed.depth = depth->get<double>();
  }
  if (!parsed.answer && (parsed.tool || parsed.depth)) {
    return Bad(where, R"("tool" or "depth" is given without "answer")");
  }
  return parsed;
}

Result<std::vector<EvaluationItem>> ReadEvaluation(const CorpusFile& file,
                                                   const Tokenizer& tokenizer) {
  CorpusReader reader({file});
  std::vector<EvaluationItem> items;
  for (;;) {
    KV8_ASSIGN_OR_RETURN(const auto line, reader.NextLine());
    if (!line) return items;
    const std::string where = reader.Where();
    KV8_ASSIGN_OR_RETURN(EvaluationLine parsed, ParseEvaluationLine(*line, where));
    KV8_ASSIGN_OR_RETURN(EvaluationItem item, Tokenised(std::move(parsed), tokenizer, where));
    items.push_back(std::move(item));
  }
}

}  // namespace kv8
