#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/json.h"

namespace kv8 {
namespace {

TEST(JsonWriter, SeparatesMembersAndElements) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("a").Integer(-1).Key("b").BeginArray().Null().Bool(true).BeginObject();
  json.EndObject().EndArray().Key("c").Raw("[1]").EndObject();
  EXPECT_EQ(out, R"({"a":-1,"b":[null,true,{}],"c":[1]})");
}

TEST(JsonWriter, ContinuesAnOpenObject) {
  std::string out = R"({"a":1)";
  JsonWriter::Continuing(out).Key("b").BeginArray().Integer(2).EndArray().EndObject();
  EXPECT_EQ(out, R"({"a":1,"b":[2]})");
}

TEST(JsonWriter, StringsReadBackAsTheyWere) {
  std::string text = "quote \" backslash \\ newline \n tab \t é 漢 😀 slash /";
  for (char c = 1; c < 0x20; ++c) text += c;
  text += '\0';
  text += '\x7f';
  std::string out;
  AppendJsonString(out, text);
  EXPECT_EQ(Json::parse(out).get<std::string>(), text);
}

TEST(JsonWriter, NumbersReadBackExactly) {
  for (const float value : {0.1F, -1e-30F, 3e38F, 5.0F}) {
    std::string out;
    JsonWriter(out).Number(value);
    EXPECT_EQ(Json::parse(out).get<float>(), value) << out;
  }
  std::string out;
  JsonWriter(out).Number(0.1);
  EXPECT_EQ(out, "0.1");
}

TEST(JsonWriter, WritesNullForWhatJsonCannotSay) {
  std::string out;
  JsonWriter json(out);
  json.BeginArray().Number(std::numeric_limits<double>::quiet_NaN());
  json.Number(-std::numeric_limits<float>::infinity()).EndArray();
  EXPECT_EQ(out, "[null,null]");
}

}  // namespace
}  // namespace kv8
