// Any text as an answer, through the reasoning and tool-call parsers, at once and in pieces: both
// ways give the same, arguments of calls are JSON objects, and broken calls are handed out whole.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"
#include "base/utf8.h"
#include "support/tool_call_events.h"
#include "text/reasoning_parser.h"

namespace {

using kv8::ToolCallEvent;
using Kind = ToolCallEvent::Kind;

void Require(bool condition) {
  if (!condition) std::abort();
}

const kv8::OrderedJson& Tools() {
  static const kv8::OrderedJson tools =
      kv8::ParseOrderedJson(R"([{"function": {"name": "f", "parameters": {"properties": {
        "s": {"type": "string"}, "i": {"type": ["integer", "null"]}, "o": {"type": "object"},
        "b": {"type": "boolean"}, "n": {"type": "number"}, "a": {"type": ["array", "string"]}}}}}])",
                            "tools")
          .value();
  return tools;
}

void CheckEvents(std::string_view text, const std::vector<ToolCallEvent>& events) {
  std::string arguments;
  std::string kept;
  bool any_call = false;
  for (const ToolCallEvent& event : events) {
    if (event.kind == Kind::kCallBegin) arguments.clear();
    if (event.kind == Kind::kArguments) arguments += event.text;
    if (event.kind == Kind::kText || event.kind == Kind::kCallBroken) kept += event.text;
    if (event.kind != Kind::kCallEnd) continue;
    any_call = true;
    const auto json = kv8::ParseOrderedJson(arguments, "arguments");
    Require(json.ok() == !kv8::FirstInvalidUtf8(arguments).has_value() &&
            (!json.ok() || json->is_object()));
  }
  if (!any_call) Require(kept == text);
}

void CheckReasoning(std::string_view text, bool open, std::size_t piece) {
  const auto split = [&](std::size_t size) {
    kv8::ReasoningParser parser(open);
    kv8::ReasoningDelta all;
    for (std::size_t at = 0; at < text.size(); at += size) {
      const auto delta = parser.Push(text.substr(at, size));
      all.reasoning += delta.reasoning;
      all.content += delta.content;
    }
    const auto rest = parser.Finish();
    all.reasoning += rest.reasoning;
    all.content += rest.content;
    return all;
  };
  const auto whole = split(text.size() + 1);
  const auto pieces = split(piece);
  Require(whole.reasoning == pieces.reasoning && whole.content == pieces.content);
  if (text.find("think>") == text.npos && !open) Require(whole.content == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 16;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = kv8::ToolCallEvents(Tools(), text, text.size() + 1);
  const auto pieces = kv8::ToolCallEvents(Tools(), text, piece);
  Require(whole.size() == pieces.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Require(whole[i].kind == pieces[i].kind && whole[i].index == pieces[i].index &&
            whole[i].text == pieces[i].text);
  }
  CheckEvents(text, whole);
  CheckReasoning(text, (data[0] & 16) != 0, piece);
  return 0;
}
