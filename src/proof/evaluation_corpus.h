// An evaluation corpus: texts to score, and questions whose answers are known.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calib/corpus_line.h"
#include "calib/corpus_reader.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "text/tokenizer.h"

namespace kv8 {

/// A line of the corpus beyond what calibration reads of it.
struct EvaluationLine {
  CorpusDocument document;
  std::optional<std::string> answer;  // what a right continuation begins with
  std::optional<std::string> tool;    // name of the function that the answer calls
  std::optional<double> depth;        // where in the text the answer stands, 0 to 1
};

/// ParseCorpusLine, and "answer", "tool" and "depth". Errors: those of ParseCorpusLine; kCorrupt,
/// naming the field, for an answer or tool that is no string or empty, a depth outside of [0, 1],
/// and a tool or depth without an answer.
Result<EvaluationLine> ParseEvaluationLine(std::string_view line, const std::string& where);

/// A line, tokenised.
struct EvaluationItem {
  std::string category;
  std::vector<TokenId> ids;
  std::vector<TokenId> answer_ids;  // length of the answer, in tokens
  std::optional<std::string> answer;
  std::optional<std::string> tool;
  std::optional<double> depth;

  bool IsText() const { return !answer; }
};

/// Reads and tokenises a whole corpus. Errors: those of CorpusReader, ParseEvaluationLine and
/// Tokenizer::Encode; kInvalidArgument for an id outside of the vocabulary.
Result<std::vector<EvaluationItem>> ReadEvaluation(const CorpusFile& file,
                                                   const Tokenizer& tokenizer);

}  // namespace kv8
