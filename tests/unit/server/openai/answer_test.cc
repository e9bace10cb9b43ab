// Answers from an engine's events: their shape, whole and streamed.
#include <gtest/gtest.h>

#include <string>

#include "events.h"
#include "fake_responder.h"
#include "server/openai/answer.h"
#include "server/openai/chat_answer.h"
#include "server/openai/completion_answer.h"

namespace kv8::openai {
namespace {

std::shared_ptr<FakeResponder> NewResponder() {
  return std::make_shared<FakeResponder>();
}

CompletionContext CompletionFor(const std::shared_ptr<FakeResponder>& responder,
                                const std::string& members) {
  CompletionContext context{.responder = responder, .tokenizer = &TestTokenizer(), .model = "m"};
  context.request = ParseCompletionRequest(*ParseBody(R"({"model": "m")" + members + "}")).value();
  const auto requests = EngineRequests(context.request, TestTokenizer());
  for (const Request& request : *requests) context.prompts.push_back(request.prompt);
  return context;
}

Completion Completed(const std::vector<Choice>& choices) {
  Completion completion;
  completion.choices = choices;
  completion.usage = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 4};
  return completion;
}

TEST(CompletionAnswer, Whole) {
  const auto responder = NewResponder();
  const auto sink = AnswerCompletion(CompletionFor(responder, R"(, "prompt": ["a", "b"], "n": 2)"));
  sink->OnStart();
  std::vector<Completion> done;
  for (std::size_t prompt = 0; prompt < 2; ++prompt) {
    ChoicePlayer first(*sink, prompt, 0);
    ChoicePlayer second(*sink, prompt, 1);
    first.Text({"x", "\"y\n"});
    second.Text({"z"}, FinishReason::kLength);
    done.push_back(Completed({first.choice(), second.choice()}));
  }
  sink->OnDone(std::move(done));
  EXPECT_EQ(responder->status(), 200);
  EXPECT_EQ(responder->content_type(), "application/json");
  const OrderedJson body = responder->json();
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["id"].get<std::string>().substr(0, 5), "cmpl-");
  ASSERT_EQ(body["choices"].size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
  EXPECT_EQ(body["choices"][2]["text"], "x\"y\n");
  EXPECT_EQ(body["choices"][2]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][3]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][3]["logprobs"].is_null());
  EXPECT_EQ(body["usage"].dump(), R"({"prompt_tokens":20,"completion_tokens":6,"total_tokens":26,)"
                                  R"("prompt_tokens_details":{"cached_tokens":8}})");
}

TEST(CompletionAnswer, StreamHasTheSameText) {
  const auto responder = NewResponder();
  const auto sink = AnswerCompletion(CompletionFor(
      responder,
      R"(, "prompt": "p", "echo": true, "stream": true, "stream_options": {"include_usage": true})"));
  sink->OnStart();
  ChoicePlayer choice(*sink, 0, 0);
  choice.Text({"x", "", "y"});
  sink->OnDone(std::vector{Completed({choice.choice()})});
  EXPECT_TRUE(responder->complete());
  EXPECT_EQ(responder->content_type(), "text/event-stream");
  const auto events = responder->events();
  ASSERT_EQ(events.size(), 5U);  // echo, x, y, usage, [DONE]; nothing for the empty piece
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) {
    text += events[i]["choices"][0]["text"].get<std::string>();
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_TRUE(events[i]["usage"].is_null());
  }
  EXPECT_EQ(text, "pxy");
  EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["choices"].size(), 0U);
  EXPECT_EQ(events[3]["usage"]["total_tokens"], 13);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(CompletionAnswer, StreamOfNoTokensTellsTheReason) {
  const auto responder = NewResponder();
  const auto sink = AnswerCompletion(
      CompletionFor(responder, R"(, "prompt": "p", "max_tokens": 0, "stream": true)"));
  sink->OnStart();
  Choice choice;
  choice.finish_reason = FinishReason::kLength;
  sink->OnDone(std::vector{Completed({choice})});
  const auto events = responder->events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["choices"][0]["finish_reason"], "length");
}

TEST(CompletionAnswer, EchoedLogprobsAreOpenAIs) {
  const auto responder = NewResponder();
  CompletionContext context = CompletionFor(
      responder, R"(, "prompt": "é the", "echo": true, "logprobs": 1, "max_tokens": 1)");
  const std::vector<TokenId> prompt = context.prompts[0];
  const auto sink = AnswerCompletion(std::move(context));
  sink->OnStart();
  std::vector<PositionLogprobs> prompt_logprobs;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    prompt_logprobs.push_back({.chosen = {prompt[i], -1.5F}, .top = {{prompt[i - 1], -0.5F}}});
  }
  const TokenId next = TestTokenizer().Encode("!")->at(0);
  const PositionLogprobs logprobs{.chosen = {next, -0.25F}, .top = {{next, -0.25F}}};
  ChoicePlayer choice(*sink, 0, 0);
  choice.Token(next, "!", FinishReason::kLength, &logprobs);
  Completion completion = Completed({choice.choice()});
  completion.prompt_logprobs = prompt_logprobs;
  sink->OnDone(std::vector{completion});

  const OrderedJson answer = responder->json()["choices"][0];
  EXPECT_EQ(answer["text"], "é the!");
  const OrderedJson& written = answer["logprobs"];
  const std::size_t count = prompt.size() + 1;
  for (const char* key : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    ASSERT_EQ(written[key].size(), count) << key;
  }
  EXPECT_TRUE(written["token_logprobs"][0].is_null());
  EXPECT_TRUE(written["top_logprobs"][0].is_null());
  EXPECT_EQ(written["token_logprobs"][1], -1.5);
  EXPECT_EQ(written["top_logprobs"][1].size(), 2U);  // the best one and the one that came
  EXPECT_EQ(written["top_logprobs"][count - 1].size(), 1U);
  EXPECT_EQ(written["tokens"][count - 1], "!");
  EXPECT_EQ(written["text_offset"][0], 0);
  EXPECT_EQ(written["text_offset"][count - 1], 5);  // characters, not bytes
  // The tokenizer has é in two tokens only.
  EXPECT_EQ(written["tokens"][0], "bytes:\\xc3");
  EXPECT_EQ(written["text_offset"][1], 0);
  EXPECT_EQ(written["text_offset"][2], 1);
}

/// The offsets of an echoed prompt's tokens, and last that of the token "!" behind it.
std::vector<std::size_t> EchoedOffsets(const std::string& prompt, std::string& text) {
  const auto responder = NewResponder();
  CompletionContext context = CompletionFor(
      responder, R"(, "echo": true, "logprobs": 1, "max_tokens": 1, "prompt": )" + prompt);
  Completion completion;
  for (std::size_t i = 1; i < context.prompts[0].size(); ++i) {
    completion.prompt_logprobs.push_back({.chosen = {context.prompts[0][i], -1.0F}});
  }
  const auto sink = AnswerCompletion(std::move(context));
  sink->OnStart();
  const TokenId next = TestTokenizer().Encode("!")->at(0);
  const PositionLogprobs logprobs{.chosen = {next, -0.25F}};
  ChoicePlayer choice(*sink, 0, 0);
  choice.Token(next, "!", FinishReason::kLength, &logprobs);
  completion.choices = {choice.choice()};
  sink->OnDone(std::vector{completion});
  const OrderedJson answer = responder->json()["choices"][0];
  text = answer["text"].get<std::string>();
  return answer["logprobs"]["text_offset"].get<std::vector<std::size_t>>();
}

TEST(CompletionAnswer, Api6_OffsetsCountTheCharactersThatAreEchoed) {
  std::string text;
  // Three decomposed letters: the tokenizer reads three characters, six are echoed.
  const auto decomposed = EchoedOffsets(R"("e\u0301e\u0301e\u0301 a")", text);
  EXPECT_EQ(text, "e\u0301e\u0301e\u0301 a!");
  EXPECT_EQ(decomposed.back(), 8U);
  for (const std::size_t offset : decomposed) {
    EXPECT_TRUE(offset % 2 == 0 || offset > 6) << offset;  // no token begins at a mark
  }
  // The Hebrew letter with a dot is a letter and a dot for the tokenizer: one character is echoed.
  const auto composed = EchoedOffsets(R"("\ufb2aa")", text);
  EXPECT_EQ(composed.back(), 2U);
  // Ids that no token has are shown as nothing, and take nothing else away.
  const auto padded =
      EchoedOffsets("[1000000, " + std::to_string(TestTokenizer().Encode("a")->at(0)) + "]", text);
  EXPECT_EQ(text, "a!");
  EXPECT_EQ(padded, (std::vector<std::size_t>{0, 0, 1}));
  // Control tokens of the prompt are echoed, and count.
  EXPECT_EQ(EchoedOffsets(R"("<|im_start|>a")", text), (std::vector<std::size_t>{0, 12, 13}));
}

TEST(CompletionAnswer, ErrorsHaveTheRightStatus) {
  const auto status = [](Code code, bool started) {
    const auto responder = NewResponder();
    const auto sink =
        AnswerCompletion(CompletionFor(responder, R"(, "prompt": "p", "stream": true)"));
    if (started) sink->OnStart();
    sink->OnDone(Error{code, "what", "stop_ids", "remedy"});
    EXPECT_TRUE(responder->complete());
    const OrderedJson error = (started ? responder->events().front() : responder->json())["error"];
    if (code == Code::kCorrupt) {  // the server's own business, but for its log
      EXPECT_EQ(error["message"], "The server failed to compute the answer; its log says why.");
      EXPECT_TRUE(error["param"].is_null());
      EXPECT_EQ(responder->note("reason"), "stop_token_ids: what\n  try: remedy");
      return responder->status();
    }
    EXPECT_EQ(error["message"], "what: remedy");
    EXPECT_EQ(responder->note("reason"), "what: remedy");
    EXPECT_EQ(error["param"], "stop_token_ids");
    return responder->status();
  };
  EXPECT_EQ(status(Code::kInvalidArgument, false), 400);
  EXPECT_EQ(status(Code::kUnsupported, false), 400);
  EXPECT_EQ(status(Code::kResourceExhausted, false), 429);
  EXPECT_EQ(status(Code::kCancelled, false), 503);
  EXPECT_EQ(status(Code::kCorrupt, false), 500);
  EXPECT_EQ(status(Code::kCorrupt, true), 200);  // the head is out; an event tells
}

TEST(CompletionAnswer, AClientThatIsGoneEndsTheRequest) {
  const auto responder = NewResponder();
  const auto sink =
      AnswerCompletion(CompletionFor(responder, R"(, "prompt": "p", "stream": true)"));
  sink->OnStart();
  responder->HangUp();
  EXPECT_EQ(ChoicePlayer(*sink, 0, 0).Token(1, "x"), TokenReply::kCancel);
}

OrderedJson AddTool() {
  return OrderedJson::parse(R"([{"type": "function", "function": {"name": "add", "parameters": {
      "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}])");
}

const std::vector<std::string> kReasonedCall = {"I ",
                                                "add.",
                                                "\n</think>\n\n",
                                                "Well:",
                                                "\n<tool_call>",
                                                "\n<function=",
                                                "add>\n",
                                                "<parameter=a>\n",
                                                "1\n</parameter>\n<parameter=b>\nx",
                                                "y\n</parameter>\n</function>\n",
                                                "</tool_call>"};

ChatContext ChatFor(const std::shared_ptr<FakeResponder>& responder, bool stream, int choices = 1) {
  return {.responder = responder,
          .tokenizer = &TestTokenizer(),
          .model = "m",
          .streaming = {.stream = stream, .include_usage = stream},
          .choices = choices,
          .form = {.reasoning_open = true, .tools = AddTool(), .stop = {}}};
}

TEST(ChatAnswer, Whole) {
  const auto responder = NewResponder();
  const auto sink = AnswerChat(ChatFor(responder, false, 2));
  sink->OnStart();
  ChoicePlayer call(*sink, 0, 0);
  ChoicePlayer text(*sink, 0, 1);
  call.Text(kReasonedCall);
  text.Text({"hm</think>", "no"}, FinishReason::kLength);
  sink->OnDone(std::vector{Completed({call.choice(), text.choice()})});
  const OrderedJson body = responder->json();
  EXPECT_EQ(body["object"], "chat.completion");
  const OrderedJson& message = body["choices"][0]["message"];
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["reasoning_content"], "I add.");
  EXPECT_EQ(message["content"], "Well:\n");
  ASSERT_EQ(message["tool_calls"].size(), 1U);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "add");
  EXPECT_EQ(
      OrderedJson::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
      OrderedJson::parse(R"({"a": 1, "b": "xy"})"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(body["choices"][1]["message"]["content"], "no");
  EXPECT_FALSE(body["choices"][1]["message"].contains("tool_calls"));
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

/// What a client puts together from the deltas of choice 0.
struct Collected {
  std::string reasoning;
  std::string content;
  std::string name;
  std::string arguments;
  int roles = 0;
  OrderedJson finish;

  void Add(const OrderedJson& choice) {
    const OrderedJson& delta = choice["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
    roles += delta.contains("role") ? 1 : 0;
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    if (!delta.contains("tool_calls")) return;
    for (const OrderedJson& news : delta["tool_calls"]) {
      EXPECT_EQ(news["index"], 0);
      EXPECT_EQ(news.contains("id"), news["function"].contains("name"));
      name += news["function"].value("name", "");
      arguments += news["function"]["arguments"].get<std::string>();
    }
  }
};

TEST(ChatAnswer, StreamSaysTheSame) {
  const auto responder = NewResponder();
  const auto sink = AnswerChat(ChatFor(responder, true));
  sink->OnStart();
  ChoicePlayer call(*sink, 0, 0);
  call.Text(kReasonedCall);
  sink->OnDone(std::vector{Completed({call.choice()})});
  const auto events = responder->events();
  Collected collected;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    collected.Add(events[i]["choices"][0]);
  }
  EXPECT_EQ(collected.reasoning, "I add.");
  EXPECT_EQ(collected.content, "Well:\n");
  EXPECT_EQ(collected.name, "add");
  EXPECT_EQ(OrderedJson::parse(collected.arguments), OrderedJson::parse(R"({"a": 1, "b": "xy"})"));
  EXPECT_EQ(collected.roles, 1);
  EXPECT_EQ(collected.finish, "tool_calls");
  EXPECT_EQ(events[events.size() - 2]["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(ChatAnswer, AStopStringEndsTheChoice) {
  for (const bool stream : {false, true}) {
    const auto responder = NewResponder();
    ChatContext context = ChatFor(responder, stream);
    context.form.stop = {"END"};
    const auto sink = AnswerChat(std::move(context));
    sink->OnStart();
    ChoicePlayer choice(*sink, 0, 0);
    EXPECT_EQ(choice.Token(7, "no END\n</think>"), TokenReply::kGoOn);
    EXPECT_EQ(choice.Token(7, "yes E"), TokenReply::kGoOn);
    EXPECT_EQ(choice.Token(7, "ND more"), TokenReply::kStop);
    Choice done = choice.choice();
    done.finish_reason = FinishReason::kStop;  // as the engine notes it
    sink->OnDone(std::vector{Completed({done})});
    if (!stream) {
      const OrderedJson answer = responder->json()["choices"][0];
      EXPECT_EQ(answer["message"]["content"], "yes ");
      EXPECT_EQ(answer["finish_reason"], "stop");
      continue;
    }
    Collected collected;
    const auto events = responder->events();
    for (std::size_t i = 0; i + 2 < events.size(); ++i) collected.Add(events[i]["choices"][0]);
    EXPECT_EQ(collected.reasoning, "no END");
    EXPECT_EQ(collected.content, "yes ");
    EXPECT_EQ(collected.finish, "stop");
  }
}

TEST(ChatAnswer, LogprobsOfTokensThatAreNoCharacters) {
  const auto responder = NewResponder();
  ChatContext context = ChatFor(responder, false);
  context.form.reasoning_open = false;
  const auto sink = AnswerChat(std::move(context));
  sink->OnStart();
  TokenId half = 0;  // the first token that is the beginning of a character
  while (TestTokenizer().Bytes(half) != "\xE2") ++half;
  const PositionLogprobs logprobs{.chosen = {half, -2}, .top = {{half, -2}}};
  ChoicePlayer choice(*sink, 0, 0);
  choice.Token(half, "\xEF\xBF\xBD", FinishReason::kLength, &logprobs);
  sink->OnDone(std::vector{Completed({choice.choice()})});
  const OrderedJson token = responder->json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "bytes:\\xe2");
  EXPECT_EQ(token["bytes"], OrderedJson::parse("[226]"));
  EXPECT_EQ(token["logprob"], -2);
  EXPECT_EQ(token["top_logprobs"].size(), 1U);
}

}  // namespace
}  // namespace kv8::openai
