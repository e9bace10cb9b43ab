#include "server/openai/chat_answer.h"

#include <utility>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/answer_parser.h"
#include "server/openai/chat_logprobs.h"
#include "server/openai/usage.h"

namespace kv8::openai {
namespace {

/// The parsers of all choices, and what both forms of the answer do with them.
class ChatAnswer : public GenerationSink {
 public:
  explicit ChatAnswer(ChatContext context) : context_(std::move(context)) {
    for (int i = 0; i < context_.choices; ++i) parsers_.emplace_back(context_.form);
  }

 protected:
  AnswerDelta Parse(const TokenEvent& event) {
    AnswerParser& parser = ParserOf(event);
    if (parser.in_reasoning()) ++reasoning_tokens_;
    AnswerDelta delta = parser.Push(event.text);
    if (FinishOf(event) == FinishReason::kNone) return delta;
    AnswerDelta rest = parser.Finish();
    delta.reasoning += rest.reasoning;
    delta.content += rest.content;
    for (CallDelta& call : rest.calls) delta.calls.push_back(std::move(call));
    return delta;
  }

  /// How the choice ends with this token, if it does: by the engine or by what the answer says.
  FinishReason FinishOf(const TokenEvent& event) {
    return ParserOf(event).ended() ? FinishReason::kStop : event.finish;
  }

  TokenReply ReplyTo(const TokenEvent& event) {
    return ParserOf(event).ended() ? TokenReply::kStop : TokenReply::kGoOn;
  }

  void WriteFinish(JsonWriter& json, int choice, FinishReason reason) const {
    const bool calls = parsers_[static_cast<std::size_t>(choice)].calls() > 0;
    if (calls && reason == FinishReason::kStop) {
      json.String("tool_calls");
    } else {
      WriteFinishReason(json, reason);
    }
  }

  const ChatContext context_;
  std::int64_t reasoning_tokens_ = 0;

 private:
  AnswerParser& ParserOf(const TokenEvent& event) {
    return parsers_[static_cast<std::size_t>(event.choice)];
  }

  std::vector<AnswerParser> parsers_;  // by choice
};

void WriteFunction(JsonWriter& json, const CallDelta& call) {
  json.Key("function").BeginObject();
  if (!call.name.empty()) json.Key("name").String(call.name);
  json.Key("arguments").String(call.arguments).EndObject();
}

/// Sends everything when it is complete.
class WholeChat : public ChatAnswer {
 public:
  explicit WholeChat(ChatContext context)
      : ChatAnswer(std::move(context)), answers_(static_cast<std::size_t>(context_.choices)) {}

  TokenReply OnToken(std::size_t /*request*/, const TokenEvent& event) override {
    answers_[static_cast<std::size_t>(event.choice)].Add(Parse(event));
    return ReplyTo(event);
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok()) {
      SendFailure(*context_.responder,
                  WithBodyField(std::move(completions).error(), context_.lengths));
      return;
    }
    const Completion& completion = completions->front();
    std::string body;
    JsonWriter json(body);
    json.BeginObject();
    WriteHead(json, NewHead("chatcmpl-", context_.model), "chat.completion");
    json.Key("choices").BeginArray();
    for (int i = 0; i < context_.choices; ++i) {
      WriteChoice(json, i, completion.choices[static_cast<std::size_t>(i)]);
    }
    json.EndArray().Key("usage");
    WriteUsage(json, completion.usage, context_.applied_defaults, reasoning_tokens_);
    json.EndObject();
    context_.responder->Send(200, kJsonType, std::move(body));
  }

 private:
  void WriteChoice(JsonWriter& json, int index, const Choice& choice) {
    json.BeginObject().Key("index").Integer(index).Key("message");
    WriteMessage(json, answers_[static_cast<std::size_t>(index)]);
    json.Key("logprobs");
    if (choice.logprobs.empty()) {
      json.Null();
    } else {
      WriteChatLogprobs(json, *context_.tokenizer, choice.logprobs);
    }
    json.Key("finish_reason");
    WriteFinish(json, index, choice.finish_reason);
    json.EndObject();
  }

  static void WriteMessage(JsonWriter& json, ParsedAnswer& answer) {
    answer.DropBroken();
    json.BeginObject().Key("role").String("assistant").Key("content");
    if (answer.content.empty() && !answer.calls.empty()) {
      json.Null();
    } else {
      json.String(answer.content);
    }
    json.Key("refusal").Null();
    if (!answer.reasoning.empty()) json.Key("reasoning_content").String(answer.reasoning);
    if (!answer.calls.empty()) {
      json.Key("tool_calls").BeginArray();
      for (const CallDelta& call : answer.calls) {
        json.BeginObject().Key("id").String(call.id).Key("type").String("function");
        WriteFunction(json, call);
        json.EndObject();
      }
      json.EndArray();
    }
    json.EndObject();
  }

  std::vector<ParsedAnswer> answers_;  // by choice
};

/// Sends every token as it comes.
class StreamedChat : public ChatAnswer {
 public:
  explicit StreamedChat(ChatContext context)
      : ChatAnswer(std::move(context)),
        stream_(context_.responder, Opening(context_.model)),
        begun_(static_cast<std::size_t>(context_.choices)) {}

  void OnStart() override { stream_.Begin(); }

  TokenReply OnToken(std::size_t /*request*/, const TokenEvent& event) override {
    const AnswerDelta delta = Parse(event);
    // Half a character, or what may become a tag or a stop string, is no news yet.
    const FinishReason finish = FinishOf(event);
    const bool nothing = delta.empty() && finish == FinishReason::kNone;
    if (nothing && event.logprobs == nullptr) return TokenReply::kGoOn;
    JsonWriter json = JsonWriter::Continuing(stream_.Open());
    json.Key("choices").BeginArray().BeginObject().Key("index").Integer(event.choice).Key("delta");
    WriteDelta(json, event.choice, delta);
    json.Key("logprobs");
    if (event.logprobs != nullptr) {
      WriteChatLogprobs(json, *context_.tokenizer, {event.logprobs, 1});
    } else {
      json.Null();
    }
    json.Key("finish_reason");
    WriteFinish(json, event.choice, finish);
    json.EndObject().EndArray();
    if (context_.streaming.include_usage) json.Key("usage").Null();
    return stream_.Send() ? ReplyTo(event) : TokenReply::kCancel;
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok())
      return stream_.Fail(WithBodyField(std::move(completions).error(), context_.lengths));
    if (context_.streaming.include_usage) {
      JsonWriter json = JsonWriter::Continuing(stream_.Open());
      json.Key("choices").BeginArray().EndArray().Key("usage");
      WriteUsage(json, completions->front().usage, context_.applied_defaults, reasoning_tokens_);
      stream_.Send();
    }
    stream_.Done();
  }

 private:
  static std::string Opening(const std::string& model) {
    std::string opening;
    JsonWriter json(opening);
    json.BeginObject();
    WriteHead(json, NewHead("chatcmpl-", model), "chat.completion.chunk");
    return opening;
  }

  void WriteDelta(JsonWriter& json, int choice, const AnswerDelta& delta) {
    json.BeginObject();
    if (!begun_[static_cast<std::size_t>(choice)]) {
      begun_[static_cast<std::size_t>(choice)] = true;
      json.Key("role").String("assistant");
    }
    if (!delta.reasoning.empty()) json.Key("reasoning_content").String(delta.reasoning);
    if (!delta.content.empty()) json.Key("content").String(delta.content);
    if (!delta.calls.empty()) {
      json.Key("tool_calls").BeginArray();
      for (const CallDelta& call : delta.calls) WriteCall(json, call);
      json.EndArray();
    }
    json.EndObject();
  }

  static void WriteCall(JsonWriter& json, const CallDelta& call) {
    if (call.id.empty() && call.arguments.empty()) return;  // merely complete
    json.BeginObject().Key("index").Integer(call.index);
    if (!call.id.empty()) json.Key("id").String(call.id).Key("type").String("function");
    WriteFunction(json, call);
    json.EndObject();
  }

  EventStream stream_;
  std::vector<bool> begun_;  // by choice: its role was told
};

}  // namespace

std::shared_ptr<GenerationSink> AnswerChat(ChatContext context) {
  if (context.streaming.stream) return std::make_shared<StreamedChat>(std::move(context));
  return std::make_shared<WholeChat>(std::move(context));
}

}  // namespace kv8::openai
