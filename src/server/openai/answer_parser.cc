#include "server/openai/answer_parser.h"

#include <algorithm>
#include <utility>

#include "server/openai/answer.h"

namespace kv8::openai {

AnswerParser::AnswerParser(const AnswerForm& form)
    : reasoning_(form.reasoning_open), parallel_calls_(form.parallel_calls), stop_(form.stop) {
  using Opener = ToolCallParser::Opener;
  const Opener opener = form.constrained_calls ? Opener::kRequired : Opener::kOptional;
  if (!form.tools.is_null()) tools_.emplace(form.tools, opener);
}

AnswerDelta AnswerParser::Push(std::string_view text) {
  return Split(reasoning_.Push(text));
}

AnswerDelta AnswerParser::Finish() {
  AnswerDelta delta = Split(reasoning_.Finish());
  if (tools_) Take(tools_->Finish(), delta);
  stop_.Flush(delta.content);
  return delta;
}

AnswerDelta AnswerParser::Split(ReasoningDelta split) {
  AnswerDelta delta;
  delta.reasoning = std::move(split.reasoning);
  if (!tools_) {
    stop_.Push(split.content, delta.content);
  } else if (!split.content.empty()) {
    Take(tools_->Feed(split.content), delta);
  }
  return delta;
}

void AnswerParser::Take(std::vector<ToolCallEvent> events, AnswerDelta& delta) {
  using Kind = ToolCallEvent::Kind;
  for (ToolCallEvent& event : events) {
    if (ended()) return;
    if (event.kind == Kind::kText || event.kind == Kind::kCallBroken) {
      stop_.Push(event.text, delta.content);
    } else {
      TakeCall(std::move(event), delta);
    }
  }
}

void AnswerParser::TakeCall(ToolCallEvent event, AnswerDelta& delta) {
  using Kind = ToolCallEvent::Kind;
  stop_.Flush(delta.content);  // a call parts the content
  if (delta.calls.empty() || delta.calls.back().index != event.index) {
    delta.calls.push_back({.index = event.index, .id = {}, .name = {}, .arguments = {}});
  }
  CallDelta& call = delta.calls.back();
  if (event.kind == Kind::kCallBegin) {
    call.id = NewId("call_");
    call.name = std::move(event.text);
  } else if (event.kind == Kind::kArguments) {
    call.arguments += event.text;
  } else {
    call.complete = true;
    ++calls_;
  }
}

void ParsedAnswer::Add(const AnswerDelta& delta) {
  reasoning += delta.reasoning;
  content += delta.content;
  for (const CallDelta& news : delta.calls) {
    if (!news.id.empty()) {
      calls.push_back(news);
    } else {
      calls.back().arguments += news.arguments;
      calls.back().complete = news.complete;
    }
  }
}

void ParsedAnswer::DropBroken() {
  std::erase_if(calls, [](const CallDelta& call) { return !call.complete; });
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].index = static_cast<int>(i);
}

}  // namespace kv8::openai
