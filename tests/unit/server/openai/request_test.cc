// Bodies of requests: what they mean, and what is refused by which name.
#include <gtest/gtest.h>

#include <string>

#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/responses_request.h"

namespace kv8::openai {
namespace {

Result<CompletionRequest> Completion(const std::string& members) {
  auto body = ParseBody(R"({"model": "m", "prompt": "p")" + members + "}");
  if (!body.ok()) return body.error();
  return ParseCompletionRequest(*body);
}

Result<ChatRequest> Chat(const std::string& members) {
  auto body =
      ParseBody(R"({"model": "m", "messages": [{"role": "user", "content": "c"}])" + members + "}");
  if (!body.ok()) return body.error();
  return ParseChatRequest(*body);
}

constexpr const char* kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";

TEST(CompletionRequest, DefaultsAreOpenAIs) {
  const auto parsed = Completion("");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->common.sampling.temperature, 1);
  EXPECT_EQ(parsed->common.max_tokens, 16);
  EXPECT_EQ(parsed->common.choices, 1);
  EXPECT_FALSE(parsed->common.logprobs);
  EXPECT_TRUE(parsed->common.text);
  EXPECT_FALSE(parsed->streaming.stream);
  EXPECT_NE(parsed->common.sampling.seed, Completion("")->common.sampling.seed);
}

TEST(CompletionRequest, ReadsEveryField) {
  const auto good = Completion(
      R"(, "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "n": 2,
         "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.3, "seed": -1,
         "logit_bias": {"5": -100, "6": 1.5}, "stop": ["a", "b"], "stop_token_ids": [3],
         "ignore_eos": true, "logprobs": 2, "echo": true, "best_of": 2, "user": "someone",
         "suffix": null, "min_tokens": 0, "unheard_of": {"x": 1})");
  ASSERT_TRUE(good.ok()) << good.error().ToString();
  const Request& request = good->common;
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.1F);
  EXPECT_FLOAT_EQ(request.sampling.presence_penalty, 0.2F);
  EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, 0.3F);
  EXPECT_EQ(request.sampling.seed, UINT64_MAX);
  const std::vector<std::pair<TokenId, float>> biases = {{5, -100.0F}, {6, 1.5F}};
  EXPECT_EQ(request.sampling.logit_bias, biases);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_ids, std::vector<TokenId>{3});
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.choices, 2);
  EXPECT_EQ(request.logprobs, 2);
  EXPECT_EQ(request.prompt_logprobs, 2);  // of the echoed prompt
  EXPECT_TRUE(good->echo);
}

TEST(CompletionRequest, TakesPromptsInEveryForm) {
  const auto prompts = [](const std::string& prompt) {
    return ParseCompletionRequest(*ParseBody(R"({"model": "m", "prompt": )" + prompt + "}"))
        .value()
        .prompts;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(prompts(R"("a")"), (std::vector<PromptInput>{"a"}));
  EXPECT_EQ(prompts(R"(["a", ""])"), (std::vector<PromptInput>{"a", ""}));
  EXPECT_EQ(prompts("[1, 2]"), (std::vector<PromptInput>{Ids{1, 2}}));
  EXPECT_EQ(prompts("[[1], [2, 3]]"), (std::vector<PromptInput>{Ids{1}, Ids{2, 3}}));
}

struct Refusal {
  const char* members;
  const char* param;
  Code code = Code::kInvalidArgument;
};

class CompletionRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(CompletionRefuses, NamingTheField) {
  const auto parsed = Completion(GetParam().members);
  ASSERT_FALSE(parsed.ok()) << GetParam().members;
  EXPECT_EQ(parsed.error().where, GetParam().param);
  EXPECT_EQ(parsed.error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, CompletionRefuses,
    testing::Values(
        Refusal{R"(, "max_tokens": "7")", "max_tokens"},
        Refusal{R"(, "max_tokens": -1)", "max_tokens"},
        Refusal{R"(, "max_tokens": 1.5)", "max_tokens"},
        Refusal{R"(, "max_tokens": true)", "max_tokens"},
        Refusal{R"(, "temperature": "0")", "temperature"},
        Refusal{R"(, "temperature": [0])", "temperature"}, Refusal{R"(, "top_p": {})", "top_p"},
        Refusal{R"(, "top_k": 0.5)", "top_k"}, Refusal{R"(, "min_p": "x")", "min_p"},
        Refusal{R"(, "repetition_penalty": true)", "repetition_penalty"},
        Refusal{R"(, "presence_penalty": "x")", "presence_penalty"},
        Refusal{R"(, "frequency_penalty": "x")", "frequency_penalty"},
        Refusal{R"(, "seed": 1.5)", "seed"}, Refusal{R"(, "seed": "1")", "seed"},
        Refusal{R"(, "n": 0)", "n"}, Refusal{R"(, "n": "2")", "n"},
        Refusal{R"(, "stop": 1)", "stop"}, Refusal{R"(, "stop": ["a", 1])", "stop"},
        Refusal{R"(, "stop_token_ids": 1)", "stop_token_ids"},
        Refusal{R"(, "stop_token_ids": [-1])", "stop_token_ids"},
        Refusal{R"(, "logit_bias": [])", "logit_bias"},
        Refusal{R"(, "logit_bias": {"x": 1})", "logit_bias.x"},
        Refusal{R"(, "logit_bias": {"1": 101})", "logit_bias.1"},
        Refusal{R"(, "logit_bias": {"1": "1"})", "logit_bias.1"},
        Refusal{R"(, "ignore_eos": 1)", "ignore_eos"}, Refusal{R"(, "echo": "true")", "echo"},
        Refusal{R"(, "logprobs": true)", "logprobs"}, Refusal{R"(, "logprobs": -1)", "logprobs"},
        Refusal{R"(, "stream": "yes")", "stream"},
        Refusal{R"(, "stream": true, "stream_options": [])", "stream_options"},
        Refusal{R"(, "stream": true, "stream_options": {"include_usage": 1})",
                "stream_options.include_usage"},
        Refusal{R"(, "stream_options": {})", "stream_options"},
        Refusal{R"(, "stream": true, "echo": true, "logprobs": 1)", "echo"},
        Refusal{R"(, "best_of": 2)", "best_of", Code::kUnsupported},
        Refusal{R"(, "suffix": "s")", "suffix", Code::kUnsupported},
        Refusal{R"(, "min_tokens": 1)", "min_tokens", Code::kUnsupported},
        Refusal{R"(, "use_beam_search": true)", "use_beam_search", Code::kUnsupported},
        Refusal{R"(, "guided_regex": 1)", "guided_regex"},
        Refusal{R"(, "guided_choice": [1])", "guided_choice"},
        Refusal{R"(, "guided_grammar": "x")", "guided_grammar", Code::kUnsupported},
        Refusal{R"(, "guided_json": {}, "guided_regex": "a")", "response_format"},
        Refusal{R"(, "structured_outputs": {"json": 1})", "structured_outputs.json"},
        Refusal{R"(, "response_format": {"type": "xml"})", "response_format.type"},
        Refusal{R"(, "response_format": {"type": "json_schema"})", "response_format.json_schema"},
        Refusal{R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": 1}})",
                "response_format.json_schema.schema"}));

class PromptRefuses : public testing::TestWithParam<const char*> {};

TEST_P(PromptRefuses, NamingTheField) {
  const auto parsed = ParseCompletionRequest(
      *ParseBody(std::string(R"({"model": "m", "prompt": )") + GetParam() + "}"));
  ASSERT_FALSE(parsed.ok()) << GetParam();
  EXPECT_EQ(parsed.error().where, "prompt");
}

INSTANTIATE_TEST_SUITE_P(Forms, PromptRefuses,
                         testing::Values("null", "1", "{}", "[]", "[1, \"a\"]", "[\"a\", 1]",
                                         "[\"a\", [1]]", "[[1], \"a\"]", "[1.5]", "[-1]",
                                         "[4294967296]", "[[1], [\"a\"]]", "[true]", "[null]",
                                         "[{}]"));

TEST(ParseBody, RefusesWhatIsNoObject) {
  for (const char* body : {"", "[]", "1", "{", R"({"a": 1, "a": 2})", "{\"a\": \"\xff\"}"}) {
    const auto parsed = ParseBody(body);
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(ChatRequest, ReadsTheConversation) {
  const auto parsed = ParseChatRequest(*ParseBody(R"({"model": "m", "messages": [
      {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "user", "content": "q", "name": "someone"},
      {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [{"id": "1",
       "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": \"x\"}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "t"}],
      "chat_template_kwargs": {"enable_thinking": true}, "max_completion_tokens": 5,
      "logprobs": true, "top_logprobs": 3})"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  const OrderedJson& messages = parsed->conversation.input.messages;
  EXPECT_EQ(messages[0]["content"], "ab");
  EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":"x"})");
  EXPECT_EQ(parsed->conversation.template_fields.variables.at(0).value, true);
  EXPECT_EQ(parsed->conversation.common.max_tokens, 5);
  EXPECT_EQ(parsed->conversation.common.logprobs, 3);
}

TEST(ChatRequest, WithoutALimitTheContextIsOne) {
  EXPECT_FALSE(Chat("")->conversation.common.max_tokens);
}

TEST(ChatRequest, ToolChoice) {
  using Mode = ToolChoice::Mode;
  const auto mode = [](const std::string& members) {
    return Chat(members)->conversation.tool_choice.mode;
  };
  EXPECT_EQ(mode(""), Mode::kNone);
  EXPECT_EQ(mode(R"(, "tools": [], "tool_choice": "auto")"), Mode::kNone);
  EXPECT_EQ(mode(kTools), Mode::kAuto);
  EXPECT_EQ(mode(std::string(kTools) + R"(, "tool_choice": "required")"), Mode::kRequired);
  const auto named = Chat(std::string(kTools) +
                          R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(named->conversation.tool_choice.mode, Mode::kNamed);
  EXPECT_EQ(named->conversation.tool_choice.name, "f");
  const auto none = Chat(std::string(kTools) + R"(, "tool_choice": "none")");
  EXPECT_EQ(none->conversation.tool_choice.mode, Mode::kNone);
  EXPECT_TRUE(none->conversation.input.tools.is_null());
}

class ChatRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ChatRefuses, NamingTheField) {
  const auto parsed = Chat(GetParam().members);
  ASSERT_FALSE(parsed.ok()) << GetParam().members;
  EXPECT_EQ(parsed.error().where, GetParam().param);
  EXPECT_EQ(parsed.error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ChatRefuses,
    testing::Values(
        Refusal{R"(, "max_tokens": 0)", "max_tokens"},
        Refusal{R"(, "max_tokens": 1, "max_completion_tokens": 2)", "max_completion_tokens"},
        Refusal{R"(, "logprobs": 1)", "logprobs"},
        Refusal{R"(, "logprobs": true, "top_logprobs": "1")", "top_logprobs"},
        Refusal{R"(, "top_logprobs": 1)", "top_logprobs"}, Refusal{R"(, "tools": {})", "tools"},
        Refusal{R"(, "tools": [1])", "tools[0]"},
        Refusal{R"(, "tools": [{"type": "retrieval"}])", "tools[0].type", Code::kUnsupported},
        Refusal{R"(, "tools": [{"type": "function"}])", "tools[0].name"},
        Refusal{R"(, "tools": [{"type": "function", "function": {"name": 1}}])",
                "tools[0].function.name"},
        Refusal{R"(, "tools": [{"type": "function", "function": {"name": "a>b"}}])",
                "tools[0].function.name"},
        Refusal{R"(, "tools": [{"type": "function", "function": {"name": "a", "parameters": []}}])",
                "tools[0].function.parameters"},
        Refusal{R"(, "tools": [{"type": "function", "function": {"name": "a", "strict": 1}}])",
                "tools[0].function.strict"},
        Refusal{R"(, "tools": [{"type": "function", "function": {"name": "a", "parameters":
                {"properties": {"b": {}, "a>b": {}}}}}])",
                "tools[0].function.parameters.properties.a>b"},
        Refusal{R"(, "tool_choice": "required")", "tool_choice"},
        Refusal{R"(, "tool_choice": "some")", "tool_choice"},
        Refusal{R"(, "tool_choice": 1)", "tool_choice"},
        Refusal{R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})",
                "tool_choice.function.name"},
        Refusal{R"(, "parallel_tool_calls": 1)", "parallel_tool_calls"},
        Refusal{R"(, "chat_template_kwargs": [])", "chat_template_kwargs"},
        Refusal{R"(, "chat_template_kwargs": {"messages": []})", "chat_template_kwargs.messages"},
        Refusal{R"(, "add_generation_prompt": 1)", "add_generation_prompt"},
        Refusal{R"(, "response_format": "json")", "response_format"}));

class MessagesRefuse : public testing::TestWithParam<Refusal> {};

TEST_P(MessagesRefuse, NamingTheField) {
  const auto parsed = ParseChatRequest(
      *ParseBody(std::string(R"({"model": "m", "messages": )") + GetParam().members + "}"));
  ASSERT_FALSE(parsed.ok()) << GetParam().members;
  EXPECT_EQ(parsed.error().where, GetParam().param);
  EXPECT_EQ(parsed.error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, MessagesRefuse,
    testing::Values(
        Refusal{"[]", "messages"}, Refusal{"null", "messages"}, Refusal{"{}", "messages"},
        Refusal{"[1]", "messages[0]"}, Refusal{R"([{"content": "c"}])", "messages[0].role"},
        Refusal{R"([{"role": 1, "content": "c"}])", "messages[0].role"},
        Refusal{R"([{"role": "robot", "content": "c"}])", "messages[0].role"},
        Refusal{R"([{"role": "user"}])", "messages[0].content"},
        Refusal{R"([{"role": "user", "content": 1}])", "messages[0].content"},
        Refusal{R"([{"role": "user", "content": ["x"]}])", "messages[0].content[0]"},
        Refusal{R"([{"role": "user", "content": [{"type": "text"}]}])",
                "messages[0].content[0].text"},
        Refusal{R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
                "messages[0].content[0].type", Code::kUnsupported},
        Refusal{R"([{"role": "user", "content": "a"}, {"role": "tool", "content": "c",
                "tool_call_id": 1}])",
                "messages[1].tool_call_id"},
        Refusal{R"([{"role": "assistant", "tool_calls": 1}])", "messages[0].tool_calls"},
        Refusal{R"([{"role": "assistant", "tool_calls": [{}]}])",
                "messages[0].tool_calls[0].function"},
        Refusal{R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f",
                "arguments": 1}}]}])",
                "messages[0].tool_calls[0].function.arguments"}));

Result<ResponsesRequest> Responses(const std::string& members) {
  return ParseResponsesRequest(*ParseBody(R"({"model": "m")" + members + "}"));
}

TEST(ChatRequest, ACallWithoutArgumentsHasNone) {
  for (const char* arguments : {R"("")", R"("null")", "null", R"(" \n")", R"("{}")", "{}"}) {
    const auto chat = ParseChatRequest(*ParseBody(
        R"({"model": "m", "messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1",
            "type": "function", "function": {"name": "f", "arguments": )" +
        std::string(arguments) + "}}]}]}"));
    ASSERT_TRUE(chat.ok()) << arguments;
    const auto responses = ParseResponsesRequest(*ParseBody(
        R"({"model": "m", "input": [{"type": "function_call", "call_id": "1", "name": "f",
            "arguments": )" +
        std::string(*arguments == '{' ? "null" : arguments) + "}]}"));
    ASSERT_TRUE(responses.ok()) << arguments;
    for (const ChatInput* input : {&chat->conversation.input, &responses->conversation.input}) {
      EXPECT_EQ(input->messages[0]["tool_calls"][0]["function"]["arguments"].dump(), "{}")
          << arguments;
    }
  }
}

TEST(ResponsesRequest, ItemsBecomeMessages) {
  const auto parsed = Responses(R"(, "instructions": "i", "input": [
      {"role": "developer", "content": "d"}, {"role": "user", "content": [
       {"type": "input_text", "text": "u"}]},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"z\": 1}"},
      {"type": "function_call_output", "call_id": "1", "output": "o"}])");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(parsed->conversation.input.messages, OrderedJson::parse(R"([
      {"role": "developer", "content": "i\n\nd"}, {"role": "user", "content": "u"},
      {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [
       {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"z": 1}}}]},
      {"role": "tool", "tool_call_id": "1", "content": "o"}])"));
}

TEST(ResponsesRequest, ReadsItsOwnNames) {
  const auto parsed = Responses(
      R"(, "input": "u", "max_output_tokens": 9, "tools": [{"type": "function", "name": "f"}],
         "tool_choice": {"type": "function", "name": "f"}, "store": true,
         "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(parsed->conversation.common.max_tokens, 9);
  EXPECT_EQ(parsed->conversation.input.tools[0]["function"]["name"], "f");
  EXPECT_EQ(parsed->conversation.tool_choice.name, "f");
  EXPECT_TRUE(std::holds_alternative<JsonSchemaForm>(parsed->conversation.form));
  EXPECT_EQ(parsed->repeated["tools"][0]["name"], "f");
  EXPECT_EQ(parsed->repeated["temperature"], 1);
}

class ResponsesRefuse : public testing::TestWithParam<Refusal> {};

TEST_P(ResponsesRefuse, NamingTheField) {
  const auto parsed = Responses(GetParam().members);
  ASSERT_FALSE(parsed.ok()) << GetParam().members;
  EXPECT_EQ(parsed.error().where, GetParam().param);
  EXPECT_EQ(parsed.error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ResponsesRefuse,
    testing::Values(
        Refusal{"", "input"}, Refusal{R"(, "input": 1)", "input"},
        Refusal{R"(, "input": [])", "input"}, Refusal{R"(, "input": [1])", "input[0]"},
        Refusal{R"(, "input": [{"role": "tool", "content": "c"}])", "input[0].role"},
        Refusal{R"(, "input": [{"role": "user"}])", "input[0].content"},
        Refusal{R"(, "input": [{"type": "web_search_call"}])", "input[0].type", Code::kUnsupported},
        Refusal{R"(, "input": [{"role": "user", "content": [{"type": "input_image"}]}])",
                "input[0].content[0].type", Code::kUnsupported},
        Refusal{R"(, "input": [{"type": "function_call_output", "output": "o"}])",
                "input[0].call_id"},
        Refusal{R"(, "input": "u", "instructions": 1)", "instructions"},
        Refusal{R"(, "input": "u", "previous_response_id": "r")", "previous_response_id",
                Code::kUnsupported},
        Refusal{R"(, "input": "u", "background": true)", "background", Code::kUnsupported},
        Refusal{R"(, "input": "u", "max_output_tokens": 0)", "max_output_tokens"},
        Refusal{R"(, "input": "u", "tools": [{"type": "web_search"}])", "tools[0].type",
                Code::kUnsupported},
        Refusal{R"(, "input": "u", "text": {"format": {"type": "json_schema"}})",
                "text.format.schema"},
        Refusal{R"(, "input": "u", "store": 1)", "store"},
        Refusal{R"(, "input": "u", "metadata": "x")", "metadata"}));

}  // namespace
}  // namespace kv8::openai
