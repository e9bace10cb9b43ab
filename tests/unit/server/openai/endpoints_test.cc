// What the endpoints answer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "served_model.h"

namespace kv8::openai {
namespace {

using Endpoints = ServedModel;

constexpr const char* kRecipe = R"("messages": [{"role": "user", "content":
    "Find a recipe for onion soup for 7 people."}], "temperature": 0, "max_tokens": 200, "tools": [
    {"type": "function", "function": {"name": "find_recipe",
     "description": "Find a recipe for a dish.", "parameters": {"type": "object", "properties":
     {"dish": {"type": "string"}, "servings": {"type": "integer"}},
     "required": ["dish", "servings"]}}}])";

/// A tool whose calls come to an end whatever the model would like to say.
constexpr const char* kLamp = R"("tools": [{"type": "function", "function": {"name": "set_lamp",
    "parameters": {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]},
    "bright": {"type": "boolean"}}, "required": ["colour", "bright"]}}},
    {"type": "function", "function": {"name": "put_out"}}],
    "messages": [{"role": "user", "content": "Tell me a story about a lantern."}],
    "temperature": 0, "max_tokens": 100)";

TEST_F(Endpoints, Models) {
  const auto list = Start("GET", "/v1/models")->json();
  EXPECT_EQ(list["data"][0]["id"], "tiny-qwen4exp");
  EXPECT_EQ(list["data"][0]["max_model_len"], 1024);
  EXPECT_EQ(Start("GET", "/v1/models/tiny-qwen4exp")->json()["object"], "model");
  const auto unknown = Start("GET", "/v1/models/other");
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(unknown->json()["error"]["code"], "model_not_found");
}

TEST_F(Endpoints, RefusalsTellTheFieldAndHaveTheRightStatus) {
  const auto unknown = Start("POST", "/v1/completions", R"({"model": "gpt-4", "prompt": "a"})");
  unknown->WaitUntilComplete();
  EXPECT_EQ(unknown->status(), 404);
  const auto range = Call("/v1/completions", R"("prompt": "a", "temperature": -1)");
  EXPECT_EQ(range->status(), 400);
  EXPECT_EQ(range->json()["error"]["param"], "temperature");
  const auto choices = Call("/v1/completions", R"("prompt": "a", "n": 99)");
  EXPECT_EQ(choices->status(), 400);
  EXPECT_EQ(choices->json()["error"]["param"], "n");
  const auto length = Call("/v1/completions", R"("prompt": "a", "max_tokens": 5000)");
  EXPECT_EQ(length->status(), 400);
  EXPECT_EQ(length->json()["error"]["param"], "max_tokens");
  const auto full = Call("/v1/completions", R"("prompt": ["1","2","3","4","5","6","7","8","9"])");
  EXPECT_EQ(full->status(), 429);
  EXPECT_EQ(full->headers().at(0).first, "Retry-After");
  const auto refused = Call("/v1/chat/completions",
                            R"("messages": [{"role": "user", "content": "a"},
                                            {"role": "system", "content": "b"}])");
  EXPECT_EQ(refused->status(), 400);
  EXPECT_NE(refused->body().find("A system message must be the first message."), std::string::npos);
}

TEST_F(Endpoints, StreamsSayWhatWholeAnswersSay) {
  const std::string request =
      R"("prompt": ["Once upon a time", "The barrel"], "max_tokens": 24, "n": 2, "seed": 5)";
  const OrderedJson whole = Complete(request);
  EXPECT_EQ(Complete(request)["choices"], whole["choices"]);  // the seed says it all
  EXPECT_NE(whole["choices"][0]["text"], whole["choices"][1]["text"]);
  std::vector<std::string> texts(4);
  for (const OrderedJson& event :
       Call("/v1/completions", request + R"(, "stream": true)")->events()) {
    if (!event.is_object()) continue;
    const OrderedJson& choice = event["choices"][0];
    texts[choice["index"].get<std::size_t>()] += choice["text"].get<std::string>();
  }
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], whole["choices"][i]["text"]);
}

TEST_F(Endpoints, EchoedLogprobsAreThoseOfGeneration) {
  const OrderedJson generated = Complete(
      R"("prompt": "The barrel is", "max_tokens": 8, "temperature": 0, "logprobs": 2)")["choices"]
                                                                                       [0];
  const std::string text = "The barrel is" + generated["text"].get<std::string>();
  const OrderedJson echoed =
      Complete(R"("prompt": )" + OrderedJson(text).dump() +
               R"(, "max_tokens": 0, "echo": true, "logprobs": 2)")["choices"][0];
  EXPECT_EQ(echoed["text"], text);
  const OrderedJson& tokens = echoed["logprobs"]["tokens"];
  const OrderedJson& values = echoed["logprobs"]["token_logprobs"];
  const std::size_t prompt = tokens.size() - generated["logprobs"]["tokens"].size();
  for (std::size_t i = prompt; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i], generated["logprobs"]["tokens"][i - prompt]);
    // Prefill and decode round differently.
    EXPECT_NEAR(values[i].get<double>(),
                generated["logprobs"]["token_logprobs"][i - prompt].get<double>(), 0.02);
  }
}

TEST_F(Endpoints, StopStringsAreCut) {
  const OrderedJson free =
      Complete(R"("prompt": "Once upon a time", "max_tokens": 20, "temperature": 0)");
  const auto text = free["choices"][0]["text"].get<std::string>();
  const std::string stop = text.substr(10, 3);
  const OrderedJson cut =
      Complete(R"("prompt": "Once upon a time", "max_tokens": 20, "temperature": 0, "stop": )" +
               OrderedJson(stop).dump())["choices"][0];
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["finish_reason"], "stop");
}

TEST_F(Endpoints, TokenizeAndBack) {
  const OrderedJson tokens =
      Answer("/tokenize", R"("prompt": "The barrel é", "return_token_strs": true)");
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["token_strs"].size(), tokens["tokens"].size());
  EXPECT_EQ(Answer("/detokenize", R"("tokens": )" + tokens["tokens"].dump())["prompt"],
            "The barrel é");
  EXPECT_EQ(Call("/detokenize", R"("tokens": [99999999])")->json()["error"]["param"], "tokens");
  const OrderedJson chat =
      Answer("/tokenize", R"("messages": [{"role": "user", "content": "hi"}])");
  const auto prompt =
      Answer("/detokenize", R"("tokens": )" + chat["tokens"].dump())["prompt"].get<std::string>();
  EXPECT_EQ(prompt, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

/// The arguments of a call, which must be those that were declared.
OrderedJson RecipeArguments(const std::string& text) {
  OrderedJson arguments = OrderedJson::parse(text);
  EXPECT_TRUE(arguments["dish"].is_string()) << text;
  EXPECT_TRUE(arguments["servings"].is_number_integer()) << text;
  return arguments;
}

TEST_F(Endpoints, CallsATool) {
  const OrderedJson choice = Chat(kRecipe)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice.dump();
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice.dump();
  const OrderedJson& function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "find_recipe");
  RecipeArguments(function["arguments"].get<std::string>());
  EXPECT_TRUE(choice["message"]["content"].is_null());
}

TEST_F(Endpoints, ANamedToolIsCalled) {
  const OrderedJson choice = Chat(
      std::string(kLamp) +
      R"(, "tool_choice": {"type": "function", "function": {"name": "set_lamp"}})")["choices"][0];
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice.dump();
  const OrderedJson& function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "set_lamp");
  const auto arguments = OrderedJson::parse(function["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["colour"] == "red" || arguments["colour"] == "blue");
  EXPECT_TRUE(arguments["bright"].is_boolean());
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(Endpoints, ARequiredToolIsCalledWhateverTheQuestion) {
  const OrderedJson choice =
      Chat(std::string(kLamp) +
           R"(, "tool_choice": "required", "parallel_tool_calls": false)")["choices"][0];
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice.dump();
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(Endpoints, ResponsesCallATool) {
  const std::string request =
      R"("input": "Find a recipe for onion soup for 7 people.", "temperature": 0,
         "max_output_tokens": 200, "tools": [
         {"type": "function", "name": "find_recipe", "description": "Find a recipe for a dish.",
          "parameters": {"type": "object", "properties": {"dish": {"type": "string"},
          "servings": {"type": "integer"}}, "required": ["dish", "servings"]}}])";
  const OrderedJson whole = Answer("/v1/responses", request);
  EXPECT_EQ(whole["status"], "completed");
  ASSERT_EQ(whole["output"].size(), 1U) << whole.dump();
  const OrderedJson& call = whole["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "find_recipe");
  RecipeArguments(call["arguments"].get<std::string>());
  EXPECT_EQ(whole["tools"][0]["name"], "find_recipe");

  const auto events = Call("/v1/responses", request + R"(, "stream": true)")->events();
  std::string arguments;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    if (events[i]["type"] == "response.function_call_arguments.delta") {
      arguments += events[i]["delta"].get<std::string>();
    }
  }
  EXPECT_EQ(arguments, call["arguments"]);
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"][0]["arguments"], call["arguments"]);
}

TEST_F(Endpoints, ResponsesContinueAConversation) {
  const OrderedJson answer = Answer("/v1/responses", R"("instructions": "Be short.", "input": [
      {"role": "user", "content": "Find a recipe for onion soup for 7 people."},
      {"type": "function_call", "call_id": "c1", "name": "find_recipe",
       "arguments": "{\"dish\": \"onion soup\", \"servings\": 7}"},
      {"type": "function_call_output", "call_id": "c1", "output": "Boil onions."}],
      "max_output_tokens": 5, "temperature": 0)");
  EXPECT_EQ(answer["output"].size(), 1U) << answer.dump();
  EXPECT_EQ(answer["output"][0]["content"][0]["type"], "output_text");
  EXPECT_EQ(answer["usage"]["output_tokens"], 5);
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(Endpoints, ToolsThatShallNotBeCalledAreNotMentioned) {
  const OrderedJson with = Chat(kRecipe + std::string(R"(, "tool_choice": "none")"));
  EXPECT_LT(with["usage"]["prompt_tokens"], 40);
  EXPECT_FALSE(with["choices"][0]["message"].contains("tool_calls"));
}

TEST_F(Endpoints, AnswersFollowASchema) {
  const OrderedJson choice = Chat(
      R"("messages": [{"role": "user", "content": "Describe the barrel."}], "max_tokens": 120,
         "temperature": 0, "response_format": {"type": "json_schema", "json_schema": {"name": "b",
         "schema": {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]},
         "litres": {"type": "integer"}}, "required": ["colour", "litres"],
         "additionalProperties": false}}})")["choices"][0];
  const auto content = choice["message"]["content"].get<std::string>();
  const OrderedJson value = OrderedJson::parse(content, nullptr, false);
  ASSERT_TRUE(value.is_object()) << content;
  EXPECT_TRUE(value["colour"] == "red" || value["colour"] == "blue");
  EXPECT_TRUE(value["litres"].is_number_integer());
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(Endpoints, CompletionsFollowAnExpression) {
  const OrderedJson choice = Complete(
      R"("prompt": "The number is", "guided_regex": " [0-9]{5}", "max_tokens": 20)")["choices"][0];
  EXPECT_EQ(choice["text"].get<std::string>().size(), 6U) << choice.dump();
  EXPECT_EQ(
      Complete(R"json("prompt": "x", "guided_choice": ["(yes)"], "max_tokens": 20)json")["choices"]
                                                                                        [0]["text"],
      "(yes)");
}

TEST_F(Endpoints, ASchemaThatIsNoneIsTheClientsFault) {
  const auto refused =
      Call("/v1/chat/completions", R"("messages": [{"role": "user", "content": "a"}],
           "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 5}}})");
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["param"], "response_format");
}

TEST_F(Endpoints, AClientThatHangsUpFreesItsPlace) {
  for (int i = 0; i < 20; ++i) {  // far more than the line holds
    const auto responder =
        Start("POST", "/v1/completions",
              R"({"model": "tiny-qwen4exp", "prompt": "a", "max_tokens": 900, "stream": true,
                  "ignore_eos": true})");
    if (i % 2 == 0) responder->WaitForWrites(2);
    responder->HangUp();
  }
  auto next = Call("/v1/completions", R"("prompt": "b", "max_tokens": 2)");
  while (next->status() == 429) next = Call("/v1/completions", R"("prompt": "b", "max_tokens": 2)");
  EXPECT_EQ(next->json()["usage"]["completion_tokens"], 2);
}

TEST_F(Endpoints, PromptsTooLongAreRefusedBeforeTheyAreTokenizedWhole) {
  const std::string text(8 << 20, 'a');  // half a minute of the tokenizer under sanitizers
  const auto completion = Call("/v1/completions", R"("max_tokens": 1, "prompt": ")" + text + "\"");
  EXPECT_EQ(completion->status(), 400);
  EXPECT_EQ(completion->json()["error"]["param"], "prompt");
  const auto chat =
      Call("/v1/chat/completions", R"("messages": [{"role": "user", "content": ")" + text + "\"}]");
  EXPECT_EQ(chat->status(), 400);
  EXPECT_EQ(chat->json()["error"]["param"], "messages");
}

TEST_F(Endpoints, ControlTokensOfUsersAreText) {
  const auto tokens =
      Answer("/tokenize", R"("messages": [{"role": "user", "content": "<|im_end|>"}])");
  int ends = 0;
  for (const OrderedJson& id : tokens["tokens"]) ends += id == 2 ? 1 : 0;
  EXPECT_EQ(ends, 1);
}

TEST_F(Endpoints, SystemPromptsAreShared) {
  std::string system = "You are a careful keeper of the lighthouse. ";
  for (int i = 0; i < 4; ++i) system += system;
  const auto ask = [&](const char* question) {
    return Chat(R"("messages": [{"role": "system", "content": ")" + system +
                R"("}, {"role": "user", "content": ")" + question +
                R"("}], "max_tokens": 4)")["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int>();
  };
  EXPECT_EQ(ask("What is the time?"), 0);
  EXPECT_GE(ask("Where is the boat that we came with?"), 64);
}

}  // namespace
}  // namespace kv8::openai
