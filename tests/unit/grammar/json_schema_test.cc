// Schemas as grammars: everything that can be written satisfies the schema, everything that
// satisfies it can be written, and what cannot be honoured is refused.
#include "grammar/json_schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/ordered_json.h"
#include "grammar_text.h"
#include "schema_oracle.h"

namespace kv8::test {
namespace {

using testing::HasSubstr;

Result<Program> Compile(std::string_view schema) {
  return CompileJsonSchema(ParseOrderedJson(schema, "test").value());
}

std::string Quoted(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

/// Whether the schema's grammar has the text; a schema that does not compile is a failure.
bool Allows(std::string_view schema, std::string_view text) {
  const auto program = Compile(schema);
  EXPECT_TRUE(program.ok()) << program.error().ToString();
  if (!program.ok()) return false;
  Machine machine(*program);
  return Matches(machine, text);
}

// What RandomValue can make values of.
const char* const kPlainSchemas[] = {
    R"(true)",
    R"({})",
    R"({"type":"object"})",
    R"({"type":"array"})",
    R"({"type":"string"})",
    R"({"type":["string","null"]})",
    R"({"type":["integer","number","boolean"]})",
    R"({"type":"string","minLength":2,"maxLength":3})",
    R"({"type":"string","minLength":1})",
    R"({"type":"integer","minimum":-12,"maximum":140})",
    R"({"type":"integer","exclusiveMinimum":3})",
    R"({"type":"integer","maximum":-7})",
    R"({"type":"number","minimum":0,"maximum":100})",
    R"({"type":"integer","multipleOf":6})",
    R"({"type":"integer","minimum":-100,"maximum":1000,"multipleOf":35})",
    R"({"type":"object","properties":{"a":{"type":"string","contentMediaType":"application/json",
        "contentSchema":{"$ref":"#/$defs/b"}}},"$defs":{"b":{"type":"object","properties":{
        "s":{"type":"string","maxLength":4},"i":{"enum":["\"",1,null]}},"required":["s"]}}})",
    R"({"type":"string","contentMediaType":"application/json","contentSchema":{"type":"array",
        "items":{"type":"string","contentMediaType":"application/json",
        "contentSchema":{"type":["string","integer"]}},"minItems":1}})",
    R"({"enum":["a","ab","\"\n",null,1,1.5,true,{"k":[1]},[]]})",
    R"({"const":{"x":[1,"y"]}})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
        "required":["b"]})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
        "c":{"type":"null"}},"additionalProperties":false})",
    R"({"type":"object","properties":{"z":{"enum":["x","y"]},"a":{"type":"object","properties":
        {"q":{"type":"array","items":{"type":"boolean"}}},"required":["q"]}},
        "required":["a","z"],"additionalProperties":{"type":"integer"}})",
    R"({"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}})",
    R"({"type":"object","additionalProperties":false})",
    R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4})",
    R"({"type":"array","items":{"type":"string"},"maxItems":1})",
    R"({"type":"array","items":false})",
    R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})",
    R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],
        "items":{"type":"null"},"minItems":1,"maxItems":5})",
    R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"t":{"const":"a"}},
        "required":["t"]},{"type":"object","properties":{"t":{"const":"b"}}}]})",
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{
        "value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},
        "required":["value"]}}})",
    R"({"type":"object","properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},
        "required":["next"]})",
};

// And others.
const char* const kEverySchema[] = {
    R"({"type":"string","pattern":"^[a-c]{2,4}(x|\"y)?$"})",
    R"({"type":"string","pattern":"^b+\\d"})",
    R"({"type":"string","pattern":"^[a-z\\n]+$","minLength":2,"maxLength":5})",
    R"({"type":"string","pattern":"^a{2}(b|cd)$","minLength":3,"maxLength":4})",
    R"({"type":"number","exclusiveMinimum":-2,"exclusiveMaximum":2})",
    R"({"type":"number","minimum":3})",
    R"({"type":"number","multipleOf":0.01,"minimum":-3,"maximum":7000})",
    R"({"type":"number","multipleOf":12,"exclusiveMaximum":1e6})",
    R"({"type":"string","contentMediaType":"application/json"})",
    R"({"type":"number","exclusiveMaximum":-1})",
    R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":0.25})",
    R"({"type":"number","minimum":-0.5,"exclusiveMaximum":12.75})",
    R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":1}},
        "required":["a"]},{"properties":{"a":{"maximum":9},"b":{"type":"string"}},
        "required":["b"]}]})",
    R"({"$ref":"#/$defs/a","minLength":2,"$defs":{"a":{"type":"string","maxLength":3}}})",
    R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],
        "anyOf":[{"properties":{"x":{"type":"integer"}},"required":["x"]},
                 {"properties":{"y":{"type":"null"}},"required":["y"]}]})",
    R"({"type":"string","enum":["a",1,"b",null]})",
    R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]},{"type":"integer"}]})",
    R"({"required":["a"],"type":"object"})",
    R"({"properties":{"a":{"type":"integer"},"ab":{"type":"integer"},"é\"":true},
        "additionalProperties":{"type":"null"}})",
    R"({"minimum":5,"properties":{"n":{}},"maxItems":2})",
};

class EverySchema : public testing::TestWithParam<const char*> {};

TEST_P(EverySchema, AllThatCanBeWrittenSatisfiesIt) {
  const OrderedJson schema = ParseOrderedJson(GetParam(), "test").value();
  const auto program = CompileJsonSchema(schema);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  Machine machine(*program);
  std::mt19937 random(7);
  int texts = 0;
  for (int i = 0; i < 150; ++i) {
    const auto text = RandomText(machine, random);
    if (!text) continue;
    ++texts;
    const auto value = ParseOrderedJson(*text, "generated");
    if (!value.ok() && value.error().what.find("duplicate key") != std::string::npos) continue;
    ASSERT_TRUE(value.ok()) << *text << "\n" << value.error().ToString();
    ASSERT_TRUE(Satisfies(*value, schema, schema)) << *text;
  }
  EXPECT_GT(texts, 75);
}
INSTANTIATE_TEST_SUITE_P(Plain, EverySchema, testing::ValuesIn(kPlainSchemas));
INSTANTIATE_TEST_SUITE_P(Other, EverySchema, testing::ValuesIn(kEverySchema));

class PlainSchema : public testing::TestWithParam<const char*> {};

TEST_P(PlainSchema, AllThatSatisfiesItCanBeWritten) {
  const OrderedJson schema = ParseOrderedJson(GetParam(), "test").value();
  const auto program = CompileJsonSchema(schema);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  Machine machine(*program);
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const OrderedJson value = RandomValue(schema, schema, random);
    ASSERT_TRUE(Satisfies(value, schema, schema)) << value.dump();
    EXPECT_TRUE(Matches(machine, value.dump())) << value.dump();
  }
}
INSTANTIATE_TEST_SUITE_P(All, PlainSchema, testing::ValuesIn(kPlainSchemas));

TEST(JsonSchema, WhiteSpaceIsBounded) {
  constexpr auto kSchema = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  EXPECT_TRUE(Allows(kSchema, R"({"a":[1,2]})"));
  EXPECT_TRUE(Allows(kSchema, R"({ "a": [ 1, 2 ] })"));
  EXPECT_TRUE(Allows(kSchema, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"));
  EXPECT_TRUE(Allows(kSchema, fmt::format("{{\n{:32}\"a\":[]}}", "")));
  EXPECT_FALSE(Allows(kSchema, fmt::format("{{\n{:33}\"a\":[]}}", "")));
  EXPECT_FALSE(Allows(kSchema, R"({  "a":[]})"));
  EXPECT_FALSE(Allows(kSchema, R"({"a":  []})"));
  EXPECT_FALSE(Allows(kSchema, R"({"a" :[]})"));
  EXPECT_FALSE(Allows(kSchema, R"( {"a":[]})"));
  EXPECT_FALSE(Allows(kSchema, "{\"a\":[]}\n"));
}

TEST(JsonSchema, StringsAreWhatJsonCallsStrings) {
  constexpr auto kSchema = R"({"type":"string"})";
  EXPECT_TRUE(Allows(kSchema, R"("\u00e9\n\/\ud83d\ude00 é 😀")"));
  EXPECT_FALSE(Allows(kSchema, "\"\n\""));
  EXPECT_FALSE(Allows(kSchema, R"("\x")"));
  EXPECT_FALSE(Allows(kSchema, R"("\ud83d")")) << "half a pair";
  EXPECT_FALSE(Allows(kSchema, R"("\ude00")"));
  EXPECT_FALSE(Allows(kSchema, "\"\xC3\"")) << "half a character";
  EXPECT_FALSE(Allows(kSchema, "\"\xED\xA0\x80\"")) << "a surrogate";
  EXPECT_FALSE(Allows(kSchema, "\"\xC0\x80\"")) << "an overlong form";
}

TEST(JsonSchema, AnEscapeIsOneCharacter) {
  constexpr auto kSchema = R"({"type":"string","minLength":2,"maxLength":2})";
  EXPECT_TRUE(Allows(kSchema, R"("\n😀")"));
  EXPECT_TRUE(Allows(kSchema, R"("\ud83d\ude00\u0041")"));
  EXPECT_FALSE(Allows(kSchema, R"("\u0041")"));
  EXPECT_FALSE(Allows(kSchema, R"("abc")"));
}

TEST(JsonSchema, IntegersOf64Bits) {
  constexpr auto kSchema =
      R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})";
  EXPECT_TRUE(Allows(kSchema, "9223372036854775807"));
  EXPECT_FALSE(Allows(kSchema, "9223372036854775808"));
  EXPECT_TRUE(Allows(kSchema, "-9223372036854775808"));
  EXPECT_FALSE(Allows(kSchema, "-9223372036854775809"));
  EXPECT_FALSE(Compile(R"({"type":"integer","maximum":18446744073709551615})").ok());
  EXPECT_TRUE(Allows(R"({"type":"integer","exclusiveMinimum":2.5,"maximum":3.5})", "3"));
}

TEST(JsonSchema, LongLimitsTakeNoSpace) {
  const auto program = Compile(R"({"type":"string","minLength":70000,"maxLength":4000000})");
  ASSERT_TRUE(program.ok());
  EXPECT_LT(program->code.size(), 200u);
  Machine machine(*program);
  EXPECT_FALSE(Matches(machine, Quoted(std::string(69'999, 'x'))));
  EXPECT_TRUE(Matches(machine, Quoted(std::string(70'001, 'x'))));
}

TEST(JsonSchema, Gram4_EveryNameThatBeginsCanEnd) {
  const auto program = Compile(R"({"type":"object","properties":{"ab":{"type":"integer"},
      "abc":{"type":"string"},"b\"":{"type":"null"}},"required":["ab"],
      "additionalProperties":true})");
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  StateId state = machine.Run(machine.start(), R"({"ab":1,)");
  for (const char* name : {"ab", "abc", "abcd", "b\\\"", "b\\\"c", "x", ""}) {
    const StateId key = machine.Run(state, '"' + std::string(name));
    for (std::size_t i = 0; i <= std::string(name).size(); ++i) {
      const bool in_escape = i > 0 && name[i - 1] == '\\';
      const StateId part = machine.Run(state, '"' + std::string(name, i));
      EXPECT_EQ(machine.Step(part, '"') != kDeadState || in_escape, true) << name << i;
    }
    EXPECT_NE(machine.Run(key, "\":"), kDeadState) << name;
  }
  EXPECT_TRUE(Matches(machine, R"({"ab":1,"abc":"x","ab":2})"));
  EXPECT_FALSE(Matches(machine, R"({"ab":1,"abc":"x","ab":"y"})")) << "its own schema holds";
  EXPECT_TRUE(Matches(machine, R"({"ab":1,"z":[],"abc":"later"})"));
}

TEST(JsonSchema, AdditionalNamesAreNotDeclaredOnes) {
  constexpr auto kSchema =
      R"({"properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"null"}})";
  EXPECT_TRUE(Allows(kSchema, R"({"ab":1,"a":null,"abc":null,"":null,"é\n":null})"));
  EXPECT_FALSE(Allows(kSchema, R"({"ab":null})"));
  EXPECT_TRUE(Allows(kSchema, R"({"a":null,"ab":1})"));
  EXPECT_FALSE(Allows(kSchema, R"({"\u0061b":null})")) << "another spelling of a declared one";
}

TEST(JsonSchema, LengthLimitsOfPydanticsTypes) {
  constexpr auto kUri = R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})";
  EXPECT_TRUE(Allows(kUri, R"("https://example.com/")"));
  constexpr auto kSecret = R"({"type":"string","format":"password","minLength":2,"maxLength":3})";
  EXPECT_TRUE(Allows(kSecret, R"("abc")"));
  EXPECT_FALSE(Allows(kSecret, R"("abcd")"));
  EXPECT_FALSE(Allows(kSecret, R"("a")"));
}

struct FormatCase {
  const char* format;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

TEST(JsonSchema, Formats) {
  const FormatCase cases[] = {
      {"date",
       {"2024-02-29", "1999-12-31", "2000-02-29"},
       {"2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "2024-00-10"}},
      {"time", {"23:59:59Z", "00:00:00.123+05:30"}, {"24:00:00Z", "10:00:00"}},
      {"date-time", {"2024-02-29T12:30:00Z"}, {"2024-02-30T12:30:00Z", "2024-02-29 12:30:00Z"}},
      {"duration", {"P3Y6M4DT12H30M5S", "PT36H", "P4W", "P1D"}, {"P", "PT", "P1H", "3D"}},
      {"uuid", {"2EB8aa08-AA98-11EA-B4AA-73B441D16380"}, {"2eb8aa08-aa98-11ea-b4aa73b441d16380"}},
      {"email", {"a.b+c@example.com"}, {"a@b", "@example.com", "a..b@example.com"}},
      {"hostname", {"example.com", "localhost"}, {"-a.com", "a..b"}},
      {"ipv4", {"127.0.0.1", "255.255.255.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"}},
      {"uuid4", {"2EB8aa08-AA98-41EA-B4AA-73B441D16380"}, {"2eb8aa08-aa98-11ea-b4aa-73b441d16380"}},
      {"uri",
       {"https://example.com", "ftp://a.b:21/c/d%20e?q=1&r=/#top"},
       {"example.com", "https://", "https://a b", "https://a/%2"}},
      {"path", {"/etc/hosts", "C:\\\\a b", "ä"}, {"", "a\\n"}},
      {"binary", {"", "a\\n\\\""}, {"\x80"}},
      {"ipv6", {"2001:db8:0:0:0:0:0:1"}, {"2001:db8", "12345:0:0:0:0:0:0:1"}},
  };
  for (const auto& [format, good, bad] : cases) {
    const std::string schema = fmt::format(R"({{"type":"string","format":"{}"}})", format);
    for (const std::string text : good) EXPECT_TRUE(Allows(schema, Quoted(text))) << text;
    for (const std::string text : bad) EXPECT_FALSE(Allows(schema, Quoted(text))) << text;
  }
}

struct RefusedSchema {
  const char* schema;
  Code code;
  const char* where;
  const char* what;
};

TEST(JsonSchema, RefusesWhatItCannotHonour) {
  const RefusedSchema cases[] = {
      {R"({"properties":{"a":{"minProperties":2}}})", Code::kUnsupported, "#/properties/a",
       "minProperties"},
      {R"({"not":{}})", Code::kUnsupported, "#", "\"not\""},
      {R"({"type":"array","uniqueItems":true})", Code::kUnsupported, "#", "uniqueItems"},
      {R"({"patternProperties":{"a":{}}})", Code::kUnsupported, "#", "patternProperties"},
      {R"({"anyOf":[{},{"if":{}}]})", Code::kUnsupported, "#/anyOf/1", "\"if\""},
      {R"({"type":"string","format":"regex"})", Code::kUnsupported, "#/format", "regex"},
      {R"({"type":"string","pattern":"a","maxLength":3})", Code::kUnsupported, "#", "length"},
      {R"({"type":"string","pattern":"^(ab)+$","maxLength":3})", Code::kUnsupported, "#", "length"},
      {R"({"type":"string","pattern":"^a$","format":"date"})", Code::kUnsupported, "#", "format"},
      {R"x({"type":"string","pattern":"(?=a)"})x", Code::kUnsupported, "#/pattern", "lookaround"},
      {R"({"type":"number","minimum":0.33333333333333331})", Code::kUnsupported, "#", "15 digits"},
      {R"({"$ref":"other.json"})", Code::kUnsupported, "#/$ref", "other.json"},
      {R"({"$ref":"#/$defs/x"})", Code::kCorrupt, "#/$ref", "refers to nothing"},
      {R"({"$ref":"#"})", Code::kInvalidArgument, "#", "to itself"},
      {R"({"type":"text"})", Code::kCorrupt, "#/type", "is not a type"},
      {R"({"properties":{"a/b":3}})", Code::kCorrupt, "#/properties/a~1b", "neither"},
      {R"({"minLength":-1})", Code::kCorrupt, "#/minLength", "is not a count"},
      {R"({"enum":["a"],"minLength":1})", Code::kUnsupported, "#", "beside"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", Code::kUnsupported, "#/allOf", "pattern"},
      {R"({"items":[{"type":"null"}]})", Code::kUnsupported, "#/items", "prefixItems"},
      {R"(false)", Code::kInvalidArgument, "JSON schema", "no finite text"},
      {R"({"enum":[]})", Code::kInvalidArgument, "JSON schema", "no finite text"},
      {R"({"type":"integer","minimum":3,"maximum":2})", Code::kInvalidArgument, "", "no finite"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
       Code::kInvalidArgument, "", "no finite text"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})", Code::kInvalidArgument, "",
       "no finite text"},
  };
  for (const auto& [schema, code, where, what] : cases) {
    const auto program = Compile(schema);
    ASSERT_FALSE(program.ok()) << schema;
    EXPECT_EQ(program.error().code, code) << schema << program.error().ToString();
    EXPECT_THAT(program.error().where, HasSubstr(where)) << schema;
    EXPECT_THAT(program.error().what, HasSubstr(what)) << schema;
  }
}

TEST(JsonSchema, BranchesWithoutAnEndAreLeftOut) {
  // The first branch never ends; only the second can be written.
  EXPECT_TRUE(
      Allows(R"({"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"type":"array",
                      "items":{"$ref":"#/$defs/a"},"minItems":1}}})",
             "null"));
  EXPECT_FALSE(
      Allows(R"({"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"type":"array",
                       "items":{"$ref":"#/$defs/a"},"minItems":1}}})",
             "["));
}

TEST(JsonSchema, SmallSchemasThatAskForMuchAreRefused) {
  std::string doubling = R"({"$ref":"#/$defs/a0","$defs":{)";
  for (int i = 0; i < 25; ++i) {
    doubling += fmt::format(
        R"("a{0}":{{"allOf":[{{"$ref":"#/$defs/a{1}"}},{{"minLength":1}},{{"$ref":"#/$defs/a{1}"}}]}},)",
        i, i + 1);
  }
  doubling += R"("a25":{"type":"string"}}})";
  const auto program = Compile(doubling);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, Code::kResourceExhausted);
}

TEST(JsonSchema, NestingIsBounded) {
  const auto program = Compile("true");
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  EXPECT_TRUE(Matches(machine, fmt::format("{:[>60}{:]>60}", "", "")));
  EXPECT_EQ(machine.Run(machine.start(), std::string(200, '[')), kDeadState);
}

TEST(JsonSchema, AnyObject) {
  const auto program = CompileJsonObject();
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  EXPECT_TRUE(Matches(machine, R"({"a":[{}, [], "x", -1.5e3, true, null]})"));
  EXPECT_FALSE(Matches(machine, "[]"));
  EXPECT_FALSE(Matches(machine, R"({"a":01})"));
}

}  // namespace
}  // namespace kv8::test
