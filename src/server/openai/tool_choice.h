// "tool_choice" and "parallel_tool_calls": whether and how the model may call functions.
#pragma once

#include <string>

#include "base/ordered_json.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

struct ToolChoice {
  enum class Mode {
    kNone,      // calls are text
    kAuto,      // the model decides
    kRequired,  // at least one call
    kNamed,     // a call of `name`
  };
  Mode mode = Mode::kNone;
  std::string name;
  bool parallel = true;  // several calls in one answer
};

/// What is not said is kAuto if there are `tools` (null: none). Both forms of a named function are
/// read: {"type": "function", "function": {"name"}} and {"type": "function", "name"}.
/// Errors: kInvalidArgument, also for a choice that the tools contradict.
Result<ToolChoice> ReadToolChoice(const RequestFields& body, const OrderedJson& tools);

}  // namespace kv8::openai
