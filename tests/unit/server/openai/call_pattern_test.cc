#include "server/openai/call_pattern.h"

#include <gtest/gtest.h>

#include "events.h"
#include "grammar/constraints.h"
#include "server/openai/answer_parser.h"

namespace kv8::openai {
namespace {

const OrderedJson& BookingTools() {
  static const OrderedJson tools = OrderedJson::parse(R"json([
      {"type": "function", "function": {"name": "book.table", "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}, "guests": {"type": "integer"},
                      "price": {"type": "number"}, "inside": {"type": "boolean"},
                      "meal": {"enum": ["lunch", "din(ner)"]}},
       "required": ["city", "guests"]}}},
      {"type": "function", "function": {"name": "ping"}},
      {"type": "function", "function": {"name": "any", "parameters": {"type": "object"}}}])json");
  return tools;
}

/// Whether the whole text matches, and whether nothing may follow it.
bool Matches(const std::string& pattern, const std::string& text) {
  static Constraints constraints(TestTokenizer());
  const auto constraint = constraints.OfRegex(pattern);
  EXPECT_TRUE(constraint.ok()) << constraint.error().ToString();
  const auto place = (*constraint)->Clone();
  const std::vector<TokenId> tokens = TestTokenizer().Encode(text).value();
  for (const TokenId token : tokens) {
    if (!place->Accept(token)) return false;
  }
  return place->complete();
}

std::string Parameter(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}

std::string Call(const std::string& name, const std::string& parameters) {
  return "\n<function=" + name + ">\n" + parameters + "</function>\n";
}

TEST(CallPattern, FollowsTheDeclaration) {
  const std::string pattern = CallPattern(BookingTools(), "");
  const std::string city = Parameter("city", "Quito");
  const std::string guests = Parameter("guests", "2");
  EXPECT_TRUE(Matches(pattern, Call("book.table", city + guests)));
  EXPECT_TRUE(Matches(pattern, Call("book.table", city + guests + Parameter("price", "-1.5e3"))));
  EXPECT_TRUE(Matches(pattern, Call("book.table", city + guests + Parameter("inside", "true"))));
  EXPECT_TRUE(Matches(pattern, Call("book.table", city + guests + Parameter("meal", "din(ner)"))));
  EXPECT_TRUE(Matches(pattern, Call("ping", "")));
  EXPECT_TRUE(Matches(pattern, Call("any", Parameter("a", "1") + Parameter("b", "x\ny"))));

  EXPECT_FALSE(Matches(pattern, Call("book.table", city)));  // guests are missing
  EXPECT_FALSE(Matches(pattern, Call("book.table", guests + city)));
  EXPECT_FALSE(Matches(pattern, Call("bookxtable", city + guests)));
  EXPECT_FALSE(Matches(pattern, Call("book.table", city + Parameter("guests", "two"))));
  EXPECT_FALSE(Matches(pattern, Call("book.table", city + Parameter("guests", "02"))));
  EXPECT_FALSE(Matches(pattern, Call("book.table", city + guests + Parameter("meal", "tea"))));
  EXPECT_FALSE(Matches(pattern, Call("ping", city)));
  EXPECT_FALSE(Matches(pattern, Call("pong", "")));
}

TEST(CallPattern, OfOneFunction) {
  const std::string pattern = CallPattern(BookingTools(), "ping");
  EXPECT_TRUE(Matches(pattern, Call("ping", "")));
  EXPECT_FALSE(Matches(pattern, Call("any", "")));
}

TEST(CallPattern, ValuesHoldAnythingButTheClosingTag) {
  const std::string pattern = CallPattern(BookingTools(), "any");
  for (const char* value : {"", "<", "</", "a</b>", "<<//parameter>", "</parameters", "</param\n<x",
                            "if (a < b) {}\n\n", "</paramete</paramete", "漢字"}) {
    const bool closes = std::string_view(value).find("</parameter") != std::string_view::npos;
    EXPECT_EQ(Matches(pattern, Call("any", Parameter("k", value))), !closes) << value;
  }
}

TEST(CallPattern, WhatItAdmitsIsParsedAsACall) {
  const std::string call =
      Call("any", Parameter("k", "</para\n<parameter") + Parameter("l", "</p>"));
  ASSERT_TRUE(Matches(CallPattern(BookingTools(), ""), call));
  AnswerParser parser(false, BookingTools(), true);
  ParsedAnswer answer;
  answer.Add(parser.Push("<tool_call>" + call + "</tool_call>"));
  answer.Add(parser.Finish());
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_TRUE(answer.calls[0].complete);
  EXPECT_EQ(OrderedJson::parse(answer.calls[0].arguments)["k"], "</para\n<parameter");
}

}  // namespace
}  // namespace kv8::openai
