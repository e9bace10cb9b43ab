// Splits the text of an answer into reasoning, content and calls of functions, as it comes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"
#include "text/reasoning_parser.h"
#include "text/tool_call_parser.h"

namespace kv8::openai {

/// News of one call. What clients get has no way to take a call back: one that breaks off in the
/// middle stays as it was begun, and its text follows as content.
struct CallDelta {
  int index = 0;     // among the answer's calls
  std::string id;    // with the first news
  std::string name;  // with the first news
  std::string arguments;
  bool complete = false;
};

/// What came of a piece of text.
struct AnswerDelta {
  std::string reasoning;
  std::string content;
  std::vector<CallDelta> calls;

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

class AnswerParser {
 public:
  /// `reasoning_open`: the prompt ends inside a block of reasoning. `tools`: functions that may be
  /// called; null when calls are to be text. Without `parallel_calls` the answer ends with its
  /// first call.
  AnswerParser(bool reasoning_open, const OrderedJson& tools, bool parallel_calls);

  AnswerDelta Push(std::string_view text);
  /// Ends the answer.
  AnswerDelta Finish();

  /// Whether the next text is reasoning, as far as is known.
  bool in_reasoning() const { return reasoning_.in_reasoning(); }
  /// Calls that are complete.
  int calls() const { return calls_; }

 private:
  AnswerDelta Split(ReasoningDelta delta);
  void Take(std::vector<ToolCallEvent> events, AnswerDelta& delta);

  ReasoningParser reasoning_;
  std::optional<ToolCallParser> tools_;
  bool parallel_calls_;
  int calls_ = 0;
};

/// An answer as far as it has come.
struct ParsedAnswer {
  std::string reasoning;
  std::string content;
  std::vector<CallDelta> calls;  // each whole

  void Add(const AnswerDelta& delta);
  /// At the end of the answer: forgets calls that broke off.
  void DropBroken();
};

}  // namespace kv8::openai
