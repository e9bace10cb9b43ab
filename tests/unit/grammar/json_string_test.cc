// Strings whose text is JSON of a schema, such as Pydantic's Json[T].
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "grammar/json_schema.h"
#include "grammar_text.h"

namespace kv8::test {
namespace {

OrderedJson JsonOf(const OrderedJson& content) {
  return {{"type", "string"}, {"contentMediaType", "application/json"}, {"contentSchema", content}};
}

bool Takes(const OrderedJson& schema, std::string_view text) {
  const auto program = CompileJsonSchema(schema);
  EXPECT_TRUE(program.ok()) << program.error().ToString();
  if (!program.ok()) return false;
  Machine machine(*program);
  return Matches(machine, text);
}

TEST(JsonString, Gram7_ItsTextIsJsonOfTheSchema) {
  const OrderedJson content = {
      {"type", "object"},
      {"properties",
       {{"a\"b", {{"type", "string"}}}, {"n", {{"type", "integer"}, {"maximum", 9}}}}},
      {"required", {"n"}},
      {"additionalProperties", {{"enum", {"\\", "x\n", 1}}}}};
  const OrderedJson values[] = {{{"n", 3}},
                                {{"a\"b", "q\"\\\n\u00e9"}, {"n", -1}},
                                {{"n", 0}, {"c", "\\"}, {"d", "x\n"}, {"\"", 1}}};
  OrderedJson schema = content;
  OrderedJson written[] = {values[0], values[1], values[2]};
  for (int strings = 0; strings <= 4; ++strings) {
    for (const OrderedJson& value : written) {
      EXPECT_TRUE(Takes(schema, value.dump())) << value.dump();
    }
    EXPECT_EQ(Takes(schema, R"({"n":3})"), strings == 0);
    schema = JsonOf(schema);
    for (OrderedJson& value : written) value = value.dump();
  }
  const OrderedJson once = JsonOf(content);
  EXPECT_TRUE(Takes(once, R"("{\n  \"n\": 3\n}")")) << "white space of the text";
  EXPECT_FALSE(Takes(once, "\"{\n\\\"n\\\":3}\"")) << "a line end in a string";
  EXPECT_FALSE(Takes(once, R"("{\"n\":10}")"));
  EXPECT_FALSE(Takes(once, R"("{"n":1}")"));
  EXPECT_FALSE(Takes(once, R"("{\"n\":1")"));
  EXPECT_FALSE(Takes(once, R"("{\"n\":1,\"c\":\"y\"}")"));
  EXPECT_FALSE(Takes(once, R"("{\"a\"b\":\"\",\"n\":1}")")) << "one escape too few";
}

TEST(JsonString, Gram7_WithoutASchemaAnyJson) {
  const OrderedJson schema = {{"contentMediaType", "application/json"}};
  for (const char* text : {R"("null")", R"("[1, {\"a\": \"\\\"\"}]")", R"("\"x\"")", R"("1.5")"}) {
    EXPECT_TRUE(Takes(schema, text)) << text;
  }
  for (const char* text : {R"("")", R"("x")", R"("[1")", R"(null)", R"("\"\"\"")"}) {
    EXPECT_FALSE(Takes(schema, text)) << text;
  }
}

TEST(JsonString, Gram7_OneDefinitionInsideAndOutside) {
  const OrderedJson schema = OrderedJson::parse(R"({"properties":{
      "plain":{"$ref":"#/$defs/d"},
      "quoted":{"type":"string","contentMediaType":"application/json",
                "contentSchema":{"$ref":"#/$defs/d"}}},
      "required":["plain","quoted"],
      "$defs":{"d":{"type":"array","items":{"anyOf":[{"const":"a"},{"$ref":"#/$defs/d"}]}}}})");
  EXPECT_TRUE(Takes(schema, R"({"plain":["a",["a"]],"quoted":"[\"a\", [[]]]"})"));
  EXPECT_FALSE(Takes(schema, R"({"plain":[\"a\"],"quoted":"[]"})"));
  EXPECT_FALSE(Takes(schema, R"({"plain":[],"quoted":"["a"]"})"));
}

TEST(JsonString, WhatCannotBeHonouredIsRefusedByName) {
  struct Case {
    const char* schema;
    const char* what;
  };
  const Case cases[] = {
      {R"({"contentMediaType":"text/html"})", "application/json"},
      {R"({"contentSchema":{}})", "without \"contentMediaType\""},
      {R"({"contentMediaType":"application/json","maxLength":3})", "\"maxLength\" beside"},
      {R"({"contentMediaType":"application/json","pattern":"a"})", "\"pattern\" beside"},
      {R"({"contentMediaType":"application/json","contentEncoding":"base64"})", "contentEncoding"},
      {R"({"contentMediaType":"application/json","enum":["1"]})", "beside \"enum\""},
      {R"({"contentMediaType":"application/json","contentSchema":{"not":{}}})", "\"not\""},
      {R"({"contentMediaType":"application/json","contentSchema":{"$ref":"#"}})",
       "in more than 4 strings"},
  };
  for (const auto& [schema, what] : cases) {
    const auto program = CompileJsonSchema(OrderedJson::parse(schema));
    ASSERT_FALSE(program.ok()) << schema;
    EXPECT_EQ(program.error().code, Code::kUnsupported) << schema;
    EXPECT_THAT(program.error().what, testing::HasSubstr(what)) << schema;
  }
}

}  // namespace
}  // namespace kv8::test
