// The statements of docs/spec/api.md that the endpoints keep by themselves.
#include <gtest/gtest.h>

#include <string>

#include "served_model.h"

namespace kv8::openai {
namespace {

using RequestRules = ServedModel;

constexpr const char* kHello = R"("messages": [{"role": "user", "content": "Hello."}])";

struct TooLong {
  const char* path;
  std::string members;
  const char* param;
  std::int64_t requested;  // 0: not looked at
};

TEST_F(RequestRules, Api2_WhatExceedsTheContextIsNamedInOpenAIsWords) {
  std::string text;
  for (int i = 0; i < 1100; ++i) text += "a b ";
  const std::string user = R"("messages": [{"role": "user", "content": ")" + text + R"("}])";
  const TooLong cases[] = {
      {"/v1/completions", R"("prompt": [3, 4, 5], "max_tokens": 5000)", "max_tokens", 5003},
      {"/v1/completions", R"("prompt": ")" + text + "\"", "prompt", 0},
      {"/v1/chat/completions", std::string(kHello) + R"(, "max_tokens": 5000)", "max_tokens", 0},
      {"/v1/chat/completions", std::string(kHello) + R"(, "max_completion_tokens": 5000)",
       "max_completion_tokens", 0},
      {"/v1/chat/completions", user, "messages", 0},
      {"/v1/chat/completions", user + R"(, "max_tokens": 5, "stream": true)", "messages", 0},
      {"/v1/responses", R"("input": "a", "max_output_tokens": 5000)", "max_output_tokens", 0},
      {"/v1/responses", R"("input": ")" + text + "\"", "input", 0}};
  for (const TooLong& c : cases) {
    const auto answer = Call(c.path, c.members);
    EXPECT_EQ(answer->status(), 400) << c.path << c.param;
    const OrderedJson error = answer->json()["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], c.param);
    const std::string words =
        "This model's maximum context length is 1024 tokens. However, you "
        "requested " +
        (c.requested > 0 ? std::to_string(c.requested) + " tokens" : "");
    EXPECT_EQ(error["message"].get<std::string>().substr(0, words.size()), words);
  }
}

TEST_F(RequestRules, Api3_NoAnswerNamesTheServersFiles) {
  const auto refused = Call("/v1/chat/completions",
                            R"("messages": [{"role": "user", "content": "a"},
                                            {"role": "system", "content": "b"}])");
  const auto message = refused->json()["error"]["message"].get<std::string>();
  EXPECT_EQ(refused->json()["error"]["param"], "messages");
  EXPECT_EQ(message.find('/'), std::string::npos) << message;
  EXPECT_EQ(message.substr(0, 20), "chat_template.jinja:") << message;
}

class Prompts : public ServedModel {
 protected:
  /// What the template makes of a conversation.
  static std::string Prompt(const std::string& members) {
    const OrderedJson tokens = Answer("/tokenize", members);
    return Answer("/detokenize", R"("tokens": )" + tokens["tokens"].dump())["prompt"]
        .get<std::string>();
  }
  static OrderedJson Refusal(const std::string& members) {
    const auto answer = Call("/v1/chat/completions", members);
    EXPECT_EQ(answer->status(), 400) << members;
    return answer->json()["error"];
  }
};

constexpr const char* kBegun = R"("messages": [{"role": "user", "content": "Count."},
    {"role": "assistant", "content": "One, two, "}])";

TEST_F(Prompts, Api5_TheLastMessageIsContinuedWhereItEnds) {
  EXPECT_EQ(Prompt(std::string(kBegun) + R"(, "continue_final_message": true)"),
            "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two, ");
  EXPECT_EQ(Prompt(kBegun),
            "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two, <|im_end|>\n"
            "<|im_start|>assistant\n");
  // The answer is what the model says to that prompt, and no more.
  const OrderedJson chat = Chat(std::string(kBegun) + R"(, "continue_final_message": true,
      "add_generation_prompt": false, "temperature": 0, "max_tokens": 8)");
  const OrderedJson plain = Complete(
      R"("prompt": "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two, ",
         "temperature": 0, "max_tokens": 8)");
  EXPECT_EQ(chat["choices"][0]["message"]["content"], plain["choices"][0]["text"]);
}

TEST_F(Prompts, Api5_WhatCannotBeContinuedIsRefused) {
  const auto refused = [](const std::string& messages, const std::string& more = "") {
    return Refusal(R"("messages": )" + messages + R"(, "continue_final_message": true)" +
                   more)["param"];
  };
  EXPECT_EQ(refused(R"([{"role": "user", "content": "a"}])"), "messages[0].role");
  EXPECT_EQ(refused(R"([{"role": "assistant", "content": null}])"), "messages[0].content");
  EXPECT_EQ(refused(R"([{"role": "assistant", "content": "a", "tool_calls": [{"id": "1",
      "type": "function", "function": {"name": "f", "arguments": "{}"}}]}])"),
            "messages[0].tool_calls");
  EXPECT_EQ(
      refused(R"([{"role": "assistant", "content": "a"}])", R"(, "add_generation_prompt": true)"),
      "continue_final_message");
  EXPECT_EQ(
      Refusal(R"("messages": [{"role": "assistant", "content": "a", "prefix": true}])")["param"],
      "messages[0].prefix");
}

TEST_F(Prompts, Api1_ThinkingIsSwitchedByEachOfItsNames) {
  const auto thinks = [](const std::string& members) {
    return Prompt(kHello + members).ends_with("<think>\n");
  };
  EXPECT_FALSE(thinks(""));
  EXPECT_TRUE(thinks(R"(, "enable_thinking": true)"));
  EXPECT_FALSE(thinks(R"(, "enable_thinking": false)"));
  EXPECT_TRUE(thinks(R"(, "reasoning_effort": "high")"));
  EXPECT_FALSE(thinks(R"(, "reasoning_effort": "none")"));
  EXPECT_TRUE(thinks(R"(, "reasoning_effort": "low", "enable_thinking": true)"));
  const auto reasoning = [](const std::string& members) {
    return Answer("/v1/responses",
                  R"("input": "a", "max_output_tokens": 1)" +
                      members)["usage"]["output_tokens_details"]["reasoning_tokens"];
  };
  EXPECT_EQ(reasoning(R"(, "reasoning": {"effort": "high"})"), 1);
  EXPECT_EQ(reasoning(R"(, "reasoning": {"effort": "none"})"), 0);
}

TEST_F(Prompts, Api1_TemplateVariablesThatChangeNothingAreRefused) {
  const auto refused = [](const std::string& members) {
    return Refusal(kHello + members)["param"];
  };
  EXPECT_EQ(refused(R"(, "chat_template_kwargs": {"thinking": true})"),
            "chat_template_kwargs.thinking");
  // An attribute of the template's messages is no variable.
  EXPECT_EQ(refused(R"(, "chat_template_kwargs": {"content": "x"})"),
            "chat_template_kwargs.content");
  EXPECT_EQ(
      refused(R"(, "chat_template_kwargs": {"enable_thinking": true}, "enable_thinking": false)"),
      "enable_thinking");
  EXPECT_EQ(refused(R"(, "reasoning_effort": "high", "enable_thinking": false)"),
            "reasoning_effort");
}

TEST_F(RequestRules, Api4_TheCheckpointsDefaultsApplyWhereTheRequestIsSilent) {
  const auto applied = [](const OrderedJson& answer) {
    return answer["usage"]["generation_config"];
  };
  EXPECT_EQ(applied(Complete(R"("prompt": "a", "max_tokens": 1)")).dump(),
            R"({"temperature":1.0,"top_p":0.95,"top_k":20})");
  EXPECT_EQ(applied(Chat(std::string(kHello) + R"(, "max_tokens": 1, "temperature": 0.5)")).dump(),
            R"({"top_p":0.95,"top_k":20})");
  const OrderedJson responses = Answer("/v1/responses", R"("input": "a", "max_output_tokens": 1)");
  EXPECT_EQ(applied(responses).dump(), R"({"temperature":1.0,"top_p":0.95,"top_k":20})");
  EXPECT_EQ(responses["top_p"], 0.95);  // what holds, not what OpenAI would do
  const OrderedJson all_set =
      Complete(R"("prompt": "a", "max_tokens": 1, "temperature": 1, "top_p": 1, "top_k": -1)");
  EXPECT_FALSE(all_set["usage"].contains("generation_config"));

  // They are in force: the same as if the request said so, and different from none.
  const std::string request = R"("prompt": "Once upon a time", "max_tokens": 40, "seed": 3)";
  const auto text = [&](const std::string& more) {
    return Complete(request + more)["choices"][0]["text"];
  };
  EXPECT_EQ(text(""), text(R"(, "temperature": 1, "top_p": 0.95, "top_k": 20)"));
  EXPECT_NE(text(""), text(R"(, "top_p": 1, "top_k": 0)"));
  const auto streamed = Call("/v1/completions", R"("prompt": "a", "max_tokens": 1, "stream": true,
      "stream_options": {"include_usage": true})")
                            ->events();
  EXPECT_EQ(applied(streamed.at(streamed.size() - 2))["top_k"], 20);
}

TEST_F(RequestRules, Api8_EveryNameOfTheModelIsAsGoodAsTheOthers) {
  const auto api = Api::Create(*service_, {.tokenizer = ModelTokenizer(),
                                           .model_dir = ModelDir(),
                                           .model_names = {"org/name", "short"},
                                           .generation_config = false})
                       .value();
  Router router;
  api->AddRoutes(router);
  const auto ask = [&](const char* method, const char* path, std::string body = "") {
    const auto responder = std::make_shared<FakeResponder>();
    (*router.Find(method, path).handler)({.method = method, .path = path, .body = std::move(body)},
                                         responder);
    responder->WaitUntilComplete();
    return responder->json();
  };
  EXPECT_EQ(ask("GET", "/v1/models")["data"][0]["id"], "org/name");
  EXPECT_EQ(ask("GET", "/v1/models")["data"][1]["id"], "short");
  EXPECT_EQ(ask("GET", "/v1/models/org%2Fname")["id"], "org/name");
  EXPECT_EQ(ask("GET", "/v1/models/org/name")["id"], "org/name");
  EXPECT_EQ(ask("GET", "/v1/models/short")["id"], "short");
  EXPECT_EQ(ask("GET", "/v1/models/short%2")["error"]["code"], "model_not_found");
  EXPECT_EQ(ask("GET", "/v1/models/tiny-qwen4exp")["error"]["code"], "model_not_found");
  const OrderedJson answer =
      ask("POST", "/v1/completions", R"({"model": "short", "prompt": "a", "max_tokens": 1})");
  EXPECT_EQ(answer["model"], "short");
  EXPECT_FALSE(answer["usage"].contains("generation_config"));  // turned off here
}

}  // namespace
}  // namespace kv8::openai
