#include "server/openai/completion_answer.h"

#include <optional>
#include <utility>

#include "server/openai/answer.h"
#include "server/openai/completion_logprobs.h"
#include "server/openai/usage.h"

namespace kv8::openai {
namespace {

constexpr std::string_view kObject = "text_completion";

/// The text that an echoing choice begins with.
std::string EchoedText(const CompletionContext& context, std::size_t prompt) {
  if (!context.request.echo) return {};
  const PromptInput& input = context.request.prompts[prompt];
  if (const auto* text = std::get_if<std::string>(&input)) return *text;
  // The engine has accepted the ids; those beyond the tokenizer's have no text.
  StreamDecoder decoder(*context.tokenizer);
  std::string text;
  for (const TokenId id : std::get<std::vector<TokenId>>(input)) {
    if (const auto piece = decoder.Push(id); piece.ok()) text += *piece;
  }
  return text + decoder.Finish();
}

/// Sends everything when it is complete.
class WholeCompletion : public GenerationSink {
 public:
  explicit WholeCompletion(CompletionContext context)
      : context_(std::move(context)), head_(NewHead("cmpl-", context_.model)) {}

  TokenReply OnToken(std::size_t /*request*/, const TokenEvent& /*event*/) override {
    return TokenReply::kGoOn;
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok()) {
      SendFailure(*context_.responder, WithBodyField(std::move(completions).error()));
      return;
    }
    std::string body;
    JsonWriter json(body);
    json.BeginObject();
    WriteHead(json, head_, kObject);
    json.Key("choices").BeginArray();
    for (std::size_t prompt = 0; prompt < completions->size(); ++prompt) {
      for (std::size_t i = 0; i < (*completions)[prompt].choices.size(); ++i) {
        WriteChoice(json, prompt, i, (*completions)[prompt]);
      }
    }
    json.EndArray().Key("usage");
    WriteUsage(json, TotalUsage(*completions), context_.request.applied_defaults);
    json.EndObject();
    context_.responder->Send(200, kJsonType, std::move(body));
  }

 private:
  void WriteChoice(JsonWriter& json, std::size_t prompt, std::size_t index,
                   const Completion& completion) const {
    const Choice& choice = completion.choices[index];
    const std::size_t first = prompt * completion.choices.size();
    json.BeginObject().Key("index").Integer(static_cast<std::int64_t>(first + index));
    const std::string echoed = EchoedText(context_, prompt);
    json.Key("text").String(echoed + choice.text).Key("logprobs");
    if (context_.request.common.logprobs) {
      CompletionLogprobs logprobs(*context_.tokenizer);
      if (context_.request.echo) {
        logprobs.AddPrompt(echoed, context_.prompts[prompt], completion.prompt_logprobs);
      }
      for (const PositionLogprobs& token : choice.logprobs) logprobs.Add(token);
      logprobs.WriteTo(json);
    } else {
      json.Null();
    }
    json.Key("finish_reason");
    WriteFinishReason(json, choice.finish_reason);
    if (context_.request.return_token_ids) {
      json.Key("token_ids").BeginArray();
      for (const TokenId id : choice.token_ids) json.Integer(id);
      json.EndArray();
    }
    json.EndObject();
  }

  const CompletionContext context_;
  const AnswerHead head_;
};

/// Sends every token as it comes.
class StreamedCompletion : public GenerationSink {
 public:
  explicit StreamedCompletion(CompletionContext context)
      : context_(std::move(context)), stream_(context_.responder, Opening(context_.model)) {
    const std::size_t choices = static_cast<std::size_t>(context_.request.common.choices);
    if (context_.request.common.logprobs) {
      logprobs_.assign(context_.request.prompts.size() * choices,
                       CompletionLogprobs(*context_.tokenizer));
    }
  }

  void OnStart() override {
    stream_.Begin();
    if (!context_.request.echo) return;
    for (std::size_t prompt = 0; prompt < context_.request.prompts.size(); ++prompt) {
      const std::string text = EchoedText(context_, prompt);
      for (int i = 0; i < context_.request.common.choices; ++i) {
        Send(IndexOf(prompt, i), text, nullptr, FinishReason::kNone);
      }
    }
  }

  TokenReply OnToken(std::size_t request, const TokenEvent& event) override {
    // Half a character, or what may become a stop string, is no news yet.
    const bool nothing = event.text.empty() && event.finish == FinishReason::kNone;
    if (nothing && event.logprobs == nullptr) return TokenReply::kGoOn;
    const bool client_there =
        Send(IndexOf(request, event.choice), event.text, event.logprobs, event.finish);
    return client_there ? TokenReply::kGoOn : TokenReply::kCancel;
  }

  void OnDone(Result<std::vector<Completion>> completions) override {
    if (!completions.ok()) return stream_.Fail(WithBodyField(std::move(completions).error()));
    for (std::size_t prompt = 0; prompt < completions->size(); ++prompt) {
      const std::vector<Choice>& choices = (*completions)[prompt].choices;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        if (!choices[i].token_ids.empty()) continue;  // its last token has told the reason
        Send(IndexOf(prompt, static_cast<int>(i)), "", nullptr, choices[i].finish_reason);
      }
    }
    if (context_.request.streaming.include_usage) {
      JsonWriter json = JsonWriter::Continuing(stream_.Open());
      json.Key("choices").BeginArray().EndArray().Key("usage");
      WriteUsage(json, TotalUsage(*completions), context_.request.applied_defaults);
      stream_.Send();
    }
    stream_.Done();
  }

 private:
  static std::string Opening(const std::string& model) {
    std::string opening;
    JsonWriter json(opening);
    json.BeginObject();
    WriteHead(json, NewHead("cmpl-", model), kObject);
    return opening;
  }

  std::size_t IndexOf(std::size_t prompt, int choice) const {
    return prompt * static_cast<std::size_t>(context_.request.common.choices) +
           static_cast<std::size_t>(choice);
  }

  bool Send(std::size_t index, std::string_view text, const PositionLogprobs* token,
            FinishReason finish) {
    JsonWriter json = JsonWriter::Continuing(stream_.Open());
    json.Key("choices").BeginArray().BeginObject();
    json.Key("index").Integer(static_cast<std::int64_t>(index)).Key("text").String(text);
    json.Key("logprobs");
    if (token != nullptr) {
      logprobs_[index].Add(*token);
      logprobs_[index].WriteTo(json);
    } else {
      json.Null();
    }
    json.Key("finish_reason");
    WriteFinishReason(json, finish);
    json.EndObject().EndArray();
    if (context_.request.streaming.include_usage) json.Key("usage").Null();
    return stream_.Send();
  }

  const CompletionContext context_;
  EventStream stream_;
  std::vector<CompletionLogprobs> logprobs_;  // one per choice when asked for
};

}  // namespace

std::shared_ptr<GenerationSink> AnswerCompletion(CompletionContext context) {
  if (context.request.streaming.stream) {
    return std::make_shared<StreamedCompletion>(std::move(context));
  }
  return std::make_shared<WholeCompletion>(std::move(context));
}

}  // namespace kv8::openai
