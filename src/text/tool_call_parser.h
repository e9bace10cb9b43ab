// Finds tool calls in an answer, as it comes:
//
//   <tool_call>
//   <function=NAME>
//   <parameter=KEY>
//   VALUE
//   </parameter>
//   </function>
//   </tool_call>
//
// White space between the tags is free. One line break on each side of VALUE belongs to the form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"

namespace kv8 {

struct ToolCallEvent {
  enum class Kind {
    kText,       // `text` is part of the answer outside of calls
    kCallBegin,  // `text` is the function's name; one that was declared
    kArguments,  // `text` goes on with the call's arguments; together they are one JSON object
    kCallEnd,    // the call and its arguments are complete
    /// The call breaks off or breaks the form: there is none, and no kCallEnd comes. `text` is all
    /// of it, from <tool_call> on, as part of the answer.
    kCallBroken,
  };
  Kind kind = Kind::kText;
  int index = 0;  // of the call, from 0; a broken one does not give its number back
  std::string text;
};

/// Reads one answer. Outside of well-formed calls of declared functions nothing is lost or changed,
/// but for white space between a call and what is before or behind it.
///
/// A value is text unless the function's JSON schema declares another type and it is one: a string
/// stays a string even if it looks like a number; of several declared types the string is the last
/// to be tried. Strings are passed on as they come, other values when they are complete.
class ToolCallParser {
 public:
  /// `tools`: the request's tools, [{"type": "function", "function": {"name", "parameters"}}, ...];
  /// entries of another form are passed over.
  explicit ToolCallParser(OrderedJson tools);

  std::vector<ToolCallEvent> Feed(std::string_view text);
  /// Ends the answer.
  std::vector<ToolCallEvent> Finish();
};

}  // namespace kv8
