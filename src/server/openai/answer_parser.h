// Splits the text of an answer into reasoning, content and calls of functions, as it comes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"
#include "text/reasoning_parser.h"
#include "text/stop_strings.h"
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

/// What a request says about reading its answer.
struct AnswerForm {
  bool reasoning_open = false;     // the prompt ends inside the reasoning
  OrderedJson tools;               // functions that may be called; null: calls are text
  bool parallel_calls = true;      // if not, the answer ends with its first call
  bool constrained_calls = false;  // what begins with <tool_call> is a call as its schema demands
  std::vector<std::string> stop;   // the content ends before the first of these; none is empty
};

class AnswerParser {
 public:
  explicit AnswerParser(const AnswerForm& form);

  /// Nothing more comes once the answer has ended.
  AnswerDelta Push(std::string_view text);
  /// Ends the answer.
  AnswerDelta Finish();

  /// Whether the next text is reasoning, as far as is known.
  bool in_reasoning() const { return reasoning_.in_reasoning(); }
  /// Whether it has ended by itself: with a stop string in its content, or with its only call.
  bool ended() const { return stop_.met() != nullptr || (!parallel_calls_ && calls_ > 0); }
  /// Calls that are complete.
  int calls() const { return calls_; }

 private:
  AnswerDelta Split(ReasoningDelta delta);
  void Take(std::vector<ToolCallEvent> events, AnswerDelta& delta);
  void TakeCall(ToolCallEvent event, AnswerDelta& delta);

  ReasoningParser reasoning_;
  std::optional<ToolCallParser> tools_;
  bool parallel_calls_;
  StopStrings stop_;
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
