#include "server/openai/responses_items.h"

#include <utility>

#include "server/openai/answer.h"

namespace kv8::openai {

using Kind = ResponseItem::Kind;

void WritePart(JsonWriter& json, const ResponseItem& item, std::string_view text) {
  json.BeginObject().Key("type");
  if (item.kind == Kind::kReasoning) {
    json.String("reasoning_text").Key("text").String(text);
  } else {
    json.String("output_text").Key("text").String(text);
    json.Key("annotations").BeginArray().EndArray().Key("logprobs").BeginArray().EndArray();
  }
  json.EndObject();
}

void WriteItem(JsonWriter& json, const ResponseItem& item, bool empty) {
  const std::string_view text = empty ? std::string_view() : item.text;
  json.BeginObject().Key("id").String(item.id).Key("type");
  if (item.kind == Kind::kCall) {
    json.String("function_call").Key("call_id").String(item.call_id);
    json.Key("name").String(item.name).Key("arguments").String(text);
  } else {
    if (item.kind == Kind::kReasoning) {
      json.String("reasoning").Key("summary").BeginArray().EndArray();
    } else {
      json.String("message").Key("role").String("assistant");
    }
    json.Key("content").BeginArray();
    if (!empty) WritePart(json, item, text);
    json.EndArray();
  }
  json.Key("status").String(empty ? "in_progress" : item.complete ? "completed" : "incomplete");
  json.EndObject();
}

void ResponseItems::Add(const AnswerDelta& delta) {
  AddText(Kind::kReasoning, delta.reasoning);
  // A call that broke off is followed by its text.
  if (delta.calls.empty() || delta.calls.front().id.empty()) {
    for (const CallDelta& call : delta.calls) AddCall(call);
    AddText(Kind::kMessage, delta.content);
  } else {
    AddText(Kind::kMessage, delta.content);
    for (const CallDelta& call : delta.calls) AddCall(call);
  }
}

void ResponseItems::Finish(bool complete) {
  if (open_) End(complete && items_.back().kind != Kind::kCall);
}

void ResponseItems::AddText(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!open_ || items_.back().kind != kind) {
    Begin({.kind = kind, .id = NewId(kind == Kind::kReasoning ? "rs_" : "msg_")});
  }
  Append(text);
}

void ResponseItems::AddCall(const CallDelta& call) {
  if (!call.id.empty()) {
    Begin({.kind = Kind::kCall,
           .id = NewId("fc_"),
           .text = {},
           .call_id = call.id,
           .name = call.name});
  }
  if (!call.arguments.empty()) Append(call.arguments);
  if (call.complete) End(/*complete=*/true);
}

void ResponseItems::Begin(ResponseItem item) {
  // Text is complete when something else begins; a call would have said so.
  if (open_) End(items_.back().kind != Kind::kCall);
  items_.push_back(std::move(item));
  open_ = true;
  if (listener_ != nullptr) listener_->OnBegin(items_.size() - 1, items_.back());
}

void ResponseItems::Append(std::string_view text) {
  items_.back().text += text;
  if (listener_ != nullptr) listener_->OnText(items_.size() - 1, items_.back(), text);
}

void ResponseItems::End(bool complete) {
  items_.back().complete = complete;
  open_ = false;
  if (listener_ != nullptr) listener_->OnEnd(items_.size() - 1, items_.back());
}

}  // namespace kv8::openai
