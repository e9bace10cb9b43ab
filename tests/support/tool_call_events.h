// What a tool-call parser makes of a text that comes in pieces.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_call_parser.h"

namespace kv8 {

/// Events of `text` in pieces of `piece` bytes; neighbours that go on with each other are joined.
inline std::vector<ToolCallEvent> ToolCallEvents(const OrderedJson& tools, std::string_view text,
                                                 std::size_t piece) {
  using Kind = ToolCallEvent::Kind;
  ToolCallParser parser(tools);
  std::vector<ToolCallEvent> all;
  const auto add = [&all](std::vector<ToolCallEvent> events) {
    for (ToolCallEvent& event : events) {
      const bool goes_on = !all.empty() && all.back().kind == event.kind &&
                           all.back().index == event.index &&
                           (event.kind == Kind::kText || event.kind == Kind::kArguments);
      if (goes_on) {
        all.back().text += event.text;
      } else {
        all.push_back(std::move(event));
      }
    }
  };
  for (std::size_t at = 0; at < text.size(); at += piece) add(parser.Feed(text.substr(at, piece)));
  add(parser.Finish());
  return all;
}

}  // namespace kv8
