#include "server/openai/responses_answer.h"

#include <utility>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/responses_items.h"
#include "server/openai/sampling_params.h"
#include "server/openai/usage.h"

namespace kv8::openai {
namespace {

constexpr LengthFields kLengths{.prompt = "input", .max_tokens = "max_output_tokens"};

/// The answer's own object; its items and usage are written once they are known.
class ResponseObject {
 public:
  explicit ResponseObject(const ResponsesContext& context)
      : head_(NewHead("resp_", context.model)), context_(&context) {}

  void Write(JsonWriter& json, std::string_view status, const std::vector<ResponseItem>& items,
             const Completion* done, std::int64_t reasoning_tokens) const {
    json.BeginObject().Key("id").String(head_.id).Key("object").String("response");
    json.Key("created_at").Integer(head_.created).Key("status").String(status);
    json.Key("error").Null().Key("incomplete_details");
    if (status == "incomplete") {
      json.BeginObject().Key("reason").String("max_output_tokens").EndObject();
    } else {
      json.Null();
    }
    json.Key("model").String(head_.model).Key("output").BeginArray();
    for (const ResponseItem& item : items) WriteItem(json, item);
    json.EndArray().Key("previous_response_id").Null().Key("store").Bool(false);
    json.Key("truncation").String("disabled");
    for (const auto& [field, value] : context_->repeated.items())
      json.Key(field).Raw(OrderedText(value));
    json.Key("usage");
    if (done != nullptr) {
      WriteUsage(json, done->usage, reasoning_tokens);
    } else {
      json.Null();
    }
    json.EndObject();
  }

 private:
  /// Here the members have other names than in chats.
  void WriteUsage(JsonWriter& json, const Usage& usage, std::int64_t reasoning_tokens) const {
    json.BeginObject().Key("input_tokens").Integer(usage.prompt_tokens);
    json.Key("input_tokens_details").BeginObject();
    json.Key("cached_tokens").Integer(usage.cached_tokens).EndObject();
    json.Key("output_tokens").Integer(usage.completion_tokens);
    json.Key("output_tokens_details").BeginObject();
    json.Key("reasoning_tokens").Integer(reasoning_tokens).EndObject();
    json.Key("total_tokens").Integer(usage.prompt_tokens + usage.completion_tokens);
    AddDefaults(json, context_->applied_defaults);
    json.EndObject();
  }

  const AnswerHead head_;
  const ResponsesContext* context_;  // outlives the object
};

std::string_view StatusOf(const Completion& completion) {
  return completion.choices[0].finish_reason == FinishReason::kLength ? "incomplete" : "completed";
}

/// Parses the answer into items.
class ResponsesAnswer : public GenerationSink {
 public:
  ResponsesAnswer(ResponsesContext context, ItemListener* listener)
      : context_(std::move(context)), object_(context_), items_(listener), parser_(context_.form) {}

 protected:
  TokenReply Parse(const TokenEvent& event) {
    if (parser_.in_reasoning()) ++reasoning_tokens_;
    items_.Add(parser_.Push(event.text));
    const bool ended = parser_.ended();
    if (event.finish == FinishReason::kNone && !ended) return TokenReply::kGoOn;
    items_.Add(parser_.Finish());
    items_.Finish(/*complete=*/ended || event.finish == FinishReason::kStop);
    return ended ? TokenReply::kStop : TokenReply::kGoOn;
  }

  const ResponsesContext context_;
  const ResponseObject object_;
  ResponseItems items_;
  std::int64_t reasoning_tokens_ = 0;

 private:
  AnswerParser parser_;
};

/// Sends everything when it is complete.
class WholeResponse : public ResponsesAnswer {
 public:
  explicit WholeResponse(ResponsesContext context)
      : ResponsesAnswer(std::move(context), /*listener=*/nullptr) {}

  TokenReply OnToken(std::size_t /*request*/, const TokenEvent& event) override {
    return Parse(event);
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok()) {
      SendFailure(*context_.responder, WithBodyField(std::move(completions).error(), kLengths));
      return;
    }
    std::vector<ResponseItem> items = items_.items();
    // A call that broke off is there again as text.
    std::erase_if(items, [](const ResponseItem& item) {
      return item.kind == ResponseItem::Kind::kCall && !item.complete;
    });
    std::string body;
    JsonWriter json(body);
    object_.Write(json, StatusOf(completions->front()), items, &completions->front(),
                  reasoning_tokens_);
    context_.responder->Send(200, kJsonType, std::move(body));
  }
};

/// Sends an event for everything that happens.
class StreamedResponse : public ResponsesAnswer, private ItemListener {
 public:
  explicit StreamedResponse(ResponsesContext context)
      : ResponsesAnswer(std::move(context), this), stream_(context_.responder, "{") {}

  void OnStart() override {
    stream_.Begin();
    SendResponse("response.created", "in_progress", nullptr);
    SendResponse("response.in_progress", "in_progress", nullptr);
  }

  TokenReply OnToken(std::size_t /*request*/, const TokenEvent& event) override {
    const TokenReply reply = Parse(event);
    return client_there_ ? reply : TokenReply::kCancel;
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok())
      return stream_.Fail(WithBodyField(std::move(completions).error(), kLengths));
    const Completion& done = completions->front();
    const std::string_view status = StatusOf(done);
    SendResponse(status == "completed" ? "response.completed" : "response.incomplete", status,
                 &done);
    stream_.End();
  }

 private:
  using Kind = ResponseItem::Kind;

  void OnBegin(std::size_t index, const ResponseItem& item) override {
    JsonWriter json = Event("response.output_item.added", index);
    json.Key("item");
    WriteItem(json, item, /*empty=*/true);
    Send();
    if (item.kind != Kind::kCall) SendPart("response.content_part.added", index, item, "");
  }

  void OnText(std::size_t index, const ResponseItem& item, std::string_view text) override {
    JsonWriter json = ItemEvent(DeltaName(item.kind), index, item);
    json.Key("delta").String(text);
    if (item.kind == Kind::kMessage) json.Key("logprobs").BeginArray().EndArray();
    Send();
  }

  void OnEnd(std::size_t index, const ResponseItem& item) override {
    JsonWriter done = ItemEvent(DoneName(item.kind), index, item);
    if (item.kind == Kind::kCall) {
      done.Key("name").String(item.name).Key("arguments").String(item.text);
    } else {
      done.Key("text").String(item.text);
      if (item.kind == Kind::kMessage) done.Key("logprobs").BeginArray().EndArray();
    }
    Send();
    if (item.kind != Kind::kCall) SendPart("response.content_part.done", index, item, item.text);
    JsonWriter json = Event("response.output_item.done", index);
    json.Key("item");
    WriteItem(json, item);
    Send();
  }

  static std::string_view DeltaName(Kind kind) {
    if (kind == Kind::kCall) return "response.function_call_arguments.delta";
    return kind == Kind::kMessage ? "response.output_text.delta" : "response.reasoning_text.delta";
  }
  static std::string_view DoneName(Kind kind) {
    if (kind == Kind::kCall) return "response.function_call_arguments.done";
    return kind == Kind::kMessage ? "response.output_text.done" : "response.reasoning_text.done";
  }

  /// Opens an event of this type: its name, its number and the place of its item.
  JsonWriter Event(std::string_view type) {
    data_.clear();
    type_ = type;
    JsonWriter json(data_);
    json.BeginObject().Key("type").String(type).Key("sequence_number").Integer(sequence_++);
    return json;
  }
  JsonWriter Event(std::string_view type, std::size_t index) {
    JsonWriter json = Event(type);
    json.Key("output_index").Integer(static_cast<std::int64_t>(index));
    return json;
  }
  JsonWriter ItemEvent(std::string_view type, std::size_t index, const ResponseItem& item) {
    JsonWriter json = Event(type, index);
    json.Key("item_id").String(item.id);
    if (item.kind != Kind::kCall) json.Key("content_index").Integer(0);
    return json;
  }
  void Send() {
    data_ += '}';
    client_there_ = stream_.SendNamed(type_, data_) && client_there_;
  }

  void SendPart(std::string_view type, std::size_t index, const ResponseItem& item,
                std::string_view text) {
    JsonWriter json = ItemEvent(type, index, item);
    json.Key("part");
    WritePart(json, item, text);
    Send();
  }

  void SendResponse(std::string_view type, std::string_view status, const Completion* done) {
    JsonWriter json = Event(type);
    json.Key("response");
    object_.Write(json, status, items_.items(), done, reasoning_tokens_);
    Send();
  }

  EventStream stream_;
  std::string type_;
  std::string data_;
  std::int64_t sequence_ = 0;
  bool client_there_ = true;
};

}  // namespace

std::shared_ptr<GenerationSink> AnswerResponses(ResponsesContext context) {
  if (context.stream) return std::make_shared<StreamedResponse>(std::move(context));
  return std::make_shared<WholeResponse>(std::move(context));
}

}  // namespace kv8::openai
