#include "server/openai/answer_parser.h"

#include <gtest/gtest.h>

namespace kv8::openai {
namespace {

const OrderedJson& Tools() {
  static const OrderedJson tools = OrderedJson::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
          "properties": {"x": {"type": "integer"}}}}}])");
  return tools;
}

constexpr const char* kCall =
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>";

ParsedAnswer ParseAll(AnswerParser parser, std::string_view text, std::size_t piece) {
  ParsedAnswer answer;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    answer.Add(parser.Push(text.substr(at, piece)));
  }
  answer.Add(parser.Finish());
  answer.DropBroken();
  return answer;
}

TEST(AnswerParser, IsTheSameForAnyPieces) {
  const std::string text = std::string("why\n</think>\n\nsay ") + kCall + "\n" + kCall;
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const ParsedAnswer answer =
        ParseAll(AnswerParser({.reasoning_open = true, .tools = Tools()}), text, piece);
    EXPECT_EQ(answer.reasoning, "why");
    EXPECT_EQ(answer.content, "say ");
    ASSERT_EQ(answer.calls.size(), 2U) << piece;
    EXPECT_EQ(answer.calls[1].name, "f");
    EXPECT_NE(answer.calls[0].id, answer.calls[1].id);
    EXPECT_EQ(OrderedJson::parse(answer.calls[1].arguments)["x"], 1);
  }
}

TEST(AnswerParser, WithoutToolsCallsAreText) {
  const ParsedAnswer answer = ParseAll(AnswerParser({}), kCall, 5);
  EXPECT_EQ(answer.content, kCall);
  EXPECT_TRUE(answer.calls.empty());
}

TEST(AnswerParser, ACallThatBreaksOffIsText) {
  const std::string text = "<tool_call>\n<function=f>\n<parameter=x>\n1";
  const ParsedAnswer answer = ParseAll(AnswerParser({.tools = Tools()}), text, 3);
  EXPECT_EQ(answer.content, text);
  EXPECT_TRUE(answer.calls.empty());
}

TEST(AnswerParser, OneCallIsAllWithoutParallelCalls) {
  const std::string text = std::string(kCall) + "\n" + kCall + "more";
  for (const std::size_t piece : {std::size_t{4}, text.size()}) {
    const ParsedAnswer answer =
        ParseAll(AnswerParser({.tools = Tools(), .parallel_calls = false}), text, piece);
    EXPECT_EQ(answer.calls.size(), 1U);
    EXPECT_EQ(answer.content, "");
  }
}

TEST(AnswerParser, StopStringsEndTheContentOnly) {
  const std::string call =
      "<tool_call>\n<function=f>\n<parameter=y>\nSTOP\n</parameter>\n</function>\n</tool_call>";
  const std::string text = "STOP it\n</think>\n\nST" + call + "OP, ST" + call + "no STOP more";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    AnswerParser parser({.reasoning_open = true, .tools = Tools(), .stop = {"STOP", "x"}});
    ParsedAnswer answer;
    for (std::size_t at = 0; at < text.size() && !parser.ended(); at += piece) {
      answer.Add(parser.Push(text.substr(at, piece)));
    }
    EXPECT_TRUE(parser.ended());
    answer.Add(parser.Finish());
    EXPECT_EQ(answer.reasoning, "STOP it");
    EXPECT_EQ(answer.content, "STOP, STno ") << piece;
    ASSERT_EQ(answer.calls.size(), 2U);
    EXPECT_EQ(OrderedJson::parse(answer.calls[0].arguments)["y"], "STOP");
  }
  AnswerParser plain({.stop = {"abc"}});
  EXPECT_EQ(plain.Push("xab").content, "x");
  EXPECT_FALSE(plain.ended());
  EXPECT_EQ(plain.Finish().content, "ab");
}

TEST(AnswerParser, OnlyACallEndsAnAnswerWithoutParallelCalls) {
  AnswerParser parser(
      {.reasoning_open = true, .tools = Tools(), .parallel_calls = false, .stop = {}});
  parser.Push("I might write </tool_call> or\n" + std::string(kCall) + "\n</think>");
  EXPECT_FALSE(parser.ended());
  parser.Push("Like </tool_call> <tool_call></tool_call> this: ");
  EXPECT_FALSE(parser.ended());
  parser.Push(kCall);
  EXPECT_TRUE(parser.ended());
}

}  // namespace
}  // namespace kv8::openai
