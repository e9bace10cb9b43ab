#include "base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/ordered_json.h"

namespace kv8 {
namespace {

TEST(ParseJson, AcceptsOneDocument) {
  const auto json = ParseJson(R"({"a": [1, true, null, "x"], "b": {"a": 2}})", "t");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["b"]["a"], 2);
}

struct BadDocument {
  const char* text;
  const char* message;  // part of Error::what
};

class ParseJsonRefuses : public testing::TestWithParam<BadDocument> {};

TEST_P(ParseJsonRefuses, WithTheReason) {
  const auto json = ParseJson(GetParam().text, "file.json");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().code, Code::kCorrupt);
  EXPECT_EQ(json.error().where, "file.json");
  EXPECT_NE(json.error().what.find(GetParam().message), std::string::npos) << json.error().what;

  const auto ordered = ParseOrderedJson(GetParam().text, "file.json");
  ASSERT_FALSE(ordered.ok());
  EXPECT_EQ(ordered.error().ToString(), json.error().ToString());
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseJsonRefuses,
    testing::Values(BadDocument{"", "not valid JSON"}, BadDocument{"{", "not valid JSON"},
                    BadDocument{"{} x", "not valid JSON"},
                    BadDocument{R"({"a":1,"a":2})", "duplicate key \"a\""},
                    BadDocument{R"({"b":{"a":1,"a":2}})", "duplicate key \"a\""},
                    BadDocument{"\"\xff\"", "not valid JSON"},
                    BadDocument{"NaN", "not valid JSON"}));

TEST(ParseJson, NulBytesDoNotEndTheText) {
  using std::string_literals::operator""s;
  for (const std::string& text : {"{}\0"s, "{}\0 x"s, "{} \n\0{"s, "[1\0]"s, "\"\0\""s, "\0"s}) {
    const auto json = ParseJson(text, "t");
    ASSERT_FALSE(json.ok());
    EXPECT_EQ(json.error().what, fmt::format("not valid JSON at byte {}", text.find('\0') + 1));
  }
}

TEST(ParseJson, NestingIsCapped) {
  EXPECT_TRUE(
      ParseJson(std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']'), "t").ok());
  const auto deep = ParseJson(std::string(100000, '['), "t");
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().what.find("nested deeper"), std::string::npos);
}

TEST(ParseOrderedJson, KeepsTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,0.5,{"b":"x","a":null}],"a":{},"m":[[],true,false],"b":18446744073709551615})";
  const auto json = ParseOrderedJson(text, "t");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->dump(), text);
}

TEST(ParseOrderedJson, TakesAnyDocument) {
  for (const std::string text : {"1", "\"x\"", "null", "[]", "{}"}) {
    EXPECT_EQ(ParseOrderedJson(text, "t")->dump(), text);
  }
}

TEST(ParseOrderedJson, NestingIsCapped) {
  const auto deep = ParseOrderedJson(std::string(100000, '['), "t");
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().what.find("nested deeper"), std::string::npos);
}

TEST(ParseOrderedJson, ManyKeysTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += fmt::format("\"{}\":0,", i);
  text.back() = '}';
  const auto json = ParseOrderedJson(text, "t");  // looked up one by one these took minutes
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), 200000U);
}

TEST(JsonText, FitsAMessage) {
  EXPECT_EQ(JsonText(Json(-3)), "-3");
  EXPECT_EQ(JsonText(Json("a\n\xC3\xA9")), R"("a\n\u00e9")");
  EXPECT_EQ(JsonText(Json("\xFF")), R"("\ufffd")");
  EXPECT_EQ(JsonText(Json(std::string(1000, 'x'))), fmt::format("\"{}...", std::string(59, 'x')));
  EXPECT_EQ(JsonText(Json::array({1, 2})), "an array of 2");
  EXPECT_EQ(JsonText(Json::object()), "an object");
}

}  // namespace
}  // namespace kv8
