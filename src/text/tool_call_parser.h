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
// What models leave out of it is supplied, as vLLM's parser of this form does: <tool_call> where
// the name is declared and a parameter or the end follows; </parameter> before the next declared
// parameter or the end of the call; </function> before </tool_call>; </tool_call>.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ordered_json.h"
#include "text/tool_schemas.h"

namespace kv8 {

/// Longest name of a function or a parameter, in bytes.
inline constexpr std::size_t kMaxToolNameBytes = 256;
/// Whether the form can hold the name: it stands between "=" and ">", on one line.
bool IsToolName(std::string_view name);

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

/// Reads one answer. Outside of calls of declared functions nothing is lost or changed, but for
/// white space with no text beside it: between two calls, or a call and an end of the answer.
///
/// A parameter that comes again is passed over; the first counts.
///
/// A value is text unless the function's JSON schema declares another type and it is one: a string
/// stays a string even if it looks like a number; of several declared types the string is the last
/// to be tried (see JsonOfTypes). Strings are passed on as they come, other values when they are
/// complete.
class ToolCallParser {
 public:
  enum class Opener {
    kOptional,  // a call may begin without <tool_call>
    kRequired,  // it may not: a constraint holds from that token on, and must hold for every call
  };

  /// `tools`: the request's tools, [{"type": "function", "function": {"name", "parameters"}}, ...];
  /// entries of another form are passed over.
  explicit ToolCallParser(OrderedJson tools, Opener opener = Opener::kOptional)
      : schemas_(std::move(tools)), opener_(opener) {}

  std::vector<ToolCallEvent> Feed(std::string_view text);
  /// Ends the answer.
  std::vector<ToolCallEvent> Finish();

 private:
  using Kind = ToolCallEvent::Kind;
  enum class State {
    kText,
    kHead,   // behind <tool_call>
    kName,   // behind <function=
    kBody,   // behind the function's tag or a value
    kStart,  // of a value, where a line break may be
    kValue,
    kTail,  // behind </function>
  };

  bool Step();
  bool StepText();
  bool StepHead();
  bool StepName();
  bool StepBody();
  bool StepParameter();
  bool StepStart();
  bool StepValue();
  bool StepTail();

  /// Whether a value ends at the '<' at `at` of the buffer; nullopt when more text must say so.
  std::optional<bool> ValueEndsAt(std::size_t at) const;
  /// Whether `marker`, or the end of the answer, comes next but for white space.
  std::optional<bool> FollowedBy(std::size_t at, std::string_view marker) const;
  void EndCall();
  void BeginFunction(std::string_view name);
  void BeginParameter(std::string_view key);
  void AddToValue(std::string_view text);
  void EndValue();
  /// There is no call: all of it was text.
  bool Break();

  void Emit(Kind kind, std::string text);
  void AddArguments(std::string_view json);
  /// Takes bytes that belong to the call off the buffer.
  void TakeOfCall(std::size_t count);
  void TakeSpaceOfCall();
  /// The rest of the buffer that begins with `at`.
  std::string_view At(std::size_t at) const { return std::string_view(buffer_).substr(at); }
  /// The name that begins at `at` and ends with ">"; empty when it is none or not there yet.
  std::string_view NameAt(std::size_t at) const;
  bool MayBeNameAt(std::size_t at) const;

  ToolSchemas schemas_;
  Opener opener_;
  State state_ = State::kText;
  bool ended_ = false;      // no more text comes
  bool text_here_ = false;  // since the last call more than white space has been passed on
  std::string buffer_;      // what is not decided yet
  std::string call_;        // the call at hand, from the white space before it on, as it came
  bool bare_ = false;       // it has no <tool_call>
  bool begun_ = false;      // kCallBegin was emitted for it
  int index_ = 0;           // of the next call
  std::string function_;
  std::vector<std::string> keys_;  // of the call's arguments so far
  bool repeated_ = false;          // the argument at hand has come before
  JsonTypes types_;                // of the value at hand
  std::string value_;              // the value at hand, unless it is passed on as it comes
  std::vector<ToolCallEvent> events_;
};

}  // namespace kv8
