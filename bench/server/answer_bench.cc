// What the server adds to the engine: time per request until it is in line, and per streamed token.
// The budgets are 150 us and 10 us.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "server/openai/chat_answer.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_answer.h"

namespace kv8::openai {
namespace {

/// Takes everything.
class NullResponder : public Responder {
 public:
  void Send(int, std::string_view, std::string body, HttpHeaders) override { Take(body); }
  void BeginStream(int, std::string_view, HttpHeaders) override {}
  bool Write(std::string_view piece) override {
    Take(piece);
    return true;
  }
  void End() override {}
  void Note(std::string_view, std::string_view) override {}
  void OnClose(std::function<void()>) override {}

 private:
  static void Take(std::string_view bytes) { benchmark::DoNotOptimize(bytes.data()); }
};

std::filesystem::path ModelDir() {
  return std::filesystem::path(KV8_SOURCE_DIR) / "models" / "tiny-qwen4exp";
}

constexpr std::string_view kChat = R"({"model": "m", "stream": true, "temperature": 0.7,
    "messages": [{"role": "system", "content": "You are a helpful assistant."},
                 {"role": "user", "content": "Find a recipe for onion soup for 7 people."}],
    "tools": [{"type": "function", "function": {"name": "find_recipe", "parameters": {"type":
      "object", "properties": {"dish": {"type": "string"}, "servings": {"type": "integer"}},
      "required": ["dish", "servings"]}}}]})";

ApiContext NewContext() {
  static const Tokenizer tokenizer = Tokenizer::Load(ModelDir() / "tokenizer.json").value();
  auto constraints = std::make_unique<Constraints>(tokenizer);
  return {.tokenizer = tokenizer,
          .chat_template = ChatTemplate::Load(ModelDir()).value(),
          .constraints = std::move(constraints)};
}

/// Body, template and tokens of a chat.
void TakeChat(benchmark::State& state) {
  const ApiContext context = NewContext();
  for (auto _ : state) {
    const OrderedJson body = ParseBody(kChat).value();
    const ChatRequest parsed = ParseChatRequest(body).value();
    benchmark::DoNotOptimize(Prepare(context, parsed.conversation).value());
  }
}
BENCHMARK(TakeChat)->Unit(benchmark::kMicrosecond);

void StreamTokens(benchmark::State& state, GenerationSink& sink) {
  sink.OnStart();
  const TokenEvent event{.token = 7, .text = " barrel"};
  for (auto _ : state) benchmark::DoNotOptimize(sink.OnToken(0, event));
}

/// One token of a chat with tools and reasoning.
void StreamChatToken(benchmark::State& state) {
  const ChatRequest parsed = ParseChatRequest(ParseBody(kChat).value()).value();
  const auto sink = AnswerChat(
      {.responder = std::make_shared<NullResponder>(),
       .model = "m",
       .streaming = {.stream = true},
       .form = {.reasoning_open = state.range(0) != 0, .tools = parsed.conversation.input.tools}});
  StreamTokens(state, *sink);
}
BENCHMARK(StreamChatToken)->Arg(0)->Arg(1);

void StreamCompletionToken(benchmark::State& state) {
  const OrderedJson body = ParseBody(R"({"model": "m", "prompt": "p", "stream": true})").value();
  const auto sink = AnswerCompletion({.responder = std::make_shared<NullResponder>(),
                                      .model = "m",
                                      .request = ParseCompletionRequest(body).value()});
  StreamTokens(state, *sink);
}
BENCHMARK(StreamCompletionToken);

}  // namespace
}  // namespace kv8::openai
