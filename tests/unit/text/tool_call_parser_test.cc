#include "text/tool_call_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/tool_call_events.h"

namespace kv8 {
namespace {

using Kind = ToolCallEvent::Kind;

OrderedJson Tools() {
  return ParseOrderedJson(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
      "b": {"type": "boolean"}, "o": {"type": "object"}, "a": {"type": "array"},
      "z": {"type": "null"}, "si": {"type": ["string", "integer"]},
      "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
      "e": {"enum": ["x", 2]}, "r": {"$ref": "#/$defs/R"}, "loop": {"$ref": "#/properties/loop"},
      "nul": {"type": "integer", "nullable": true}, "free": {}, "p": {"properties": {}}},
      "$defs": {"R": {"type": "object"}}, "additionalProperties": {"type": "integer"}}}},
    {"type": "function", "function": {"name": "g"}}, {"type": "other"}, 3])",
                          "tools")
      .value();
}

/// Events in one line: text as it is, calls as "#index name{...}" and an end.
std::string Shown(const std::vector<ToolCallEvent>& events) {
  std::string out;
  for (const ToolCallEvent& event : events) {
    switch (event.kind) {
      case Kind::kText:
        out += "[" + event.text + "]";
        break;
      case Kind::kCallBegin:
        out += "#" + std::to_string(event.index) + " " + event.text;
        break;
      case Kind::kArguments:
        out += event.text;
        break;
      case Kind::kCallEnd:
        out += ";";
        break;
      case Kind::kCallBroken:
        out += "!" + event.text;
        break;
    }
  }
  return out;
}

void ExpectEvents(std::string_view text, std::string_view events) {
  for (const std::size_t piece : {1u, 2u, 5u, 13u, 10000u}) {
    EXPECT_EQ(Shown(ToolCallEvents(Tools(), text, piece)), events)
        << text << "\nin pieces of " << piece;
  }
}

std::string CallOf(std::string_view key, std::string_view value) {
  return "<tool_call>\n<function=f>\n<parameter=" + std::string(key) + ">\n" + std::string(value) +
         "\n</parameter>\n</function>\n</tool_call>";
}

/// The JSON that a value becomes.
void ExpectValue(std::string_view key, std::string_view value, std::string_view json) {
  ExpectEvents(CallOf(key, value),
               "#0 f{\"" + std::string(key) + "\": " + std::string(json) + "};");
}

TEST(ToolCallParser, ReadsTheFormThatTheTemplateWrites) {
  ExpectEvents(
      "I look.\n<tool_call>\n<function=f>\n<parameter=s>\ntwo\nlines\n</parameter>\n<parameter=i>\n"
      "3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n"
      "</tool_call>",
      "[I look.\n]#0 f{\"s\": \"two\\nlines\", \"i\": 3};#1 g{};");
}

TEST(ToolCallParser, WhiteSpaceBetweenTagsIsFree) {
  ExpectEvents("<tool_call><function=f><parameter=s>x</parameter></function></tool_call>",
               "#0 f{\"s\": \"x\"};");
  ExpectEvents(
      "<tool_call> \n\n <function=f>\n\n\t<parameter=s>x</parameter>  </function> "
      "</tool_call>  after",
      "#0 f{\"s\": \"x\"};[  after]");
}

TEST(ToolCallParser, OneLineBreakOnEachSideIsNotPartOfAValue) {
  ExpectValue("s", "", "\"\"");
  ExpectValue("s", "\n\nx\n\n", "\"\\n\\nx\\n\\n\"");
  ExpectEvents("<tool_call><function=f><parameter=s> x </parameter></function></tool_call>",
               "#0 f{\"s\": \" x \"};");
  ExpectEvents("<tool_call><function=f><parameter=s>\n</parameter></function></tool_call>",
               "#0 f{\"s\": \"\"};");
}

TEST(ToolCallParser, TextWithoutCallsIsUnchanged) {
  for (const std::string_view text : {"", "plain", " a <tool_cal> b < <tool_call \n", "a\n\n",
                                      "<tool_response>", "x <tool_", "\xf0\x9f\x8e\x89 <"}) {
    ExpectEvents(text, text.empty() ? "" : "[" + std::string(text) + "]");
  }
}

TEST(ToolCallParser, TypesComeFromTheSchema) {
  ExpectValue("s", "5", "\"5\"");
  ExpectValue("s", "true", "\"true\"");
  ExpectValue("s", "{\"a\": 1}", "\"{\\\"a\\\": 1}\"");
  ExpectValue("i", "5", "5");
  ExpectValue("i", " -12345678901234567890123 ", "-12345678901234567890123");
  ExpectValue("i", "5.0", "5");
  ExpectValue("n", "-1.50e3", "-1.50e3");
  ExpectValue("n", "7", "7");
  ExpectValue("b", "true", "true");
  ExpectValue("b", "False", "false");
  ExpectValue("z", "null", "null");
  ExpectValue("o", "{\"a\": [1, null]}", "{\"a\": [1, null]}");
  ExpectValue("a", "[1, \"x\"]", "[1, \"x\"]");
  ExpectValue("free", "5", "\"5\"");
}

TEST(ToolCallParser, UnionsTryTheirTypesAndTextLast) {
  ExpectValue("si", "5", "5");
  ExpectValue("si", "5 apples", "\"5 apples\"");
  ExpectValue("any", "None", "null");
  ExpectValue("any", "4", "4");
  ExpectValue("e", "2", "2");
  ExpectValue("e", "x", "\"x\"");
  ExpectValue("r", "{}", "{}");
  ExpectValue("p", "{}", "{}");
  ExpectValue("nul", "null", "null");
  ExpectValue("loop", "1", "\"1\"");
  ExpectValue("undeclared", "1", "1");
}

TEST(ToolCallParser, WhatIsNotOfItsTypeIsText) {
  ExpectValue("i", "five", "\"five\"");
  ExpectValue("i", "1.5", "\"1.5\"");
  ExpectValue("i", "01", "\"01\"");
  ExpectValue("i", "", "\"\"");
  ExpectValue("n", "1.", "\"1.\"");
  ExpectValue("n", "NaN", "\"NaN\"");
  ExpectValue("b", "yes", "\"yes\"");
  ExpectValue("o", "[1]", "\"[1]\"");
  ExpectValue("o", "{\"a\": }", "\"{\\\"a\\\": }\"");
  ExpectValue("a", "{}", "\"{}\"");
}

TEST(ToolCallParser, ValuesAreEscaped) {
  ExpectValue("s", "\"q\" \\ \t \x01 \xc3\xa9", "\"\\\"q\\\" \\\\ \\t \\u0001 \xc3\xa9\"");
  ExpectValue("s", "</param <parameter=x> </tool_call>", "\"</param <parameter=x> </tool_call>\"");
}

TEST(ToolCallParser, WhatIsNoCallIsText) {
  for (const std::string_view text :
       {"<tool_call>", "<tool_call>\n", "<tool_call>{\"name\": 1}</tool_call>",
        "a  <tool_call>\n<function=unknown>\n</function>\n</tool_call>\nb", "<tool_call><function=",
        "<tool_call><function=f", "<tool_call><function=f\n>", "<tool_call><function=>"}) {
    ExpectEvents(text, "[" + std::string(text) + "]");
  }
}

TEST(ToolCallParser, ACallThatBreaksIsHandedOutWhole) {
  ExpectEvents("a\n<tool_call><function=f><parameter=s>x",
               "[a\n]#0 f{\"s\": \"x!<tool_call><function=f><parameter=s>x");
  ExpectEvents("<tool_call><function=f>oops</tool_call>",
               "#0 f!<tool_call><function=f>[oops</tool_call>]");
  ExpectEvents("<tool_call><function=f><parameter=s>x</parameter> and",
               "#0 f{\"s\": \"x\"!<tool_call><function=f><parameter=s>x</parameter> [and]");
}

TEST(ToolCallParser, ReadingGoesOnBehindABrokenCall) {
  ExpectEvents("<tool_call>x " + CallOf("i", "1"), "[<tool_call>x ]#0 f{\"i\": 1};");
  ExpectEvents("<tool_call><function=f>x" + CallOf("i", "1"),
               "#0 f!<tool_call><function=f>[x]#1 f{\"i\": 1};");
}

TEST(ToolCallParser, TheLastTagMayBeMissing) {
  ExpectEvents("<tool_call><function=g></function>", "#0 g{};");
  ExpectEvents("<tool_call><function=g></function></tool_", "#0 g{};");
  ExpectEvents("<tool_call><function=g></function> text", "#0 g{};[ text]");
}

TEST(ToolCallParser, AValueEndsBeforeTheNextParameter) {
  ExpectEvents(
      "<tool_call>\n<function=f>\n<parameter=s>\nParis\n<parameter=i>\n3\n</parameter>\n"
      "</function>\n</tool_call>",
      "#0 f{\"s\": \"Paris\", \"i\": 3};");
  ExpectEvents("<tool_call><function=f><parameter=i>3<parameter=s>x</function></tool_call>",
               "#0 f{\"i\": 3, \"s\": \"x\"};");
  // A name that is not declared is part of the text.
  ExpectValue("s", "<parameter=x>1", "\"<parameter=x>1\"");
  ExpectValue("s", "<parameter=\n>", "\"<parameter=\\n>\"");
}

TEST(ToolCallParser, AValueEndsBeforeTheEndOfTheCall) {
  const std::string begin = "<tool_call>\n<function=f>\n<parameter=s>\nx\n";
  const std::string whole = "#0 f{\"s\": \"x\"};";
  ExpectEvents(begin + "</function>\n</tool_call>", whole);
  ExpectEvents(begin + "</function>\n</tool_call>\nmore", whole + "[\nmore]");
  ExpectEvents(begin + "</function>", whole);
  ExpectEvents(begin + "</tool_call>", whole);
  ExpectEvents(begin + "</tool_call>\n<tool_call><function=g></function></tool_call>",
               whole + "#1 g{};");
  ExpectEvents(begin + "</parameter>\n</tool_call>", whole);
  // Text that goes on behind such a tag holds it.
  ExpectValue("s", "a</function>b", "\"a</function>b\"");
  ExpectValue("s", "</function>\n</tool_cal", "\"</function>\\n</tool_cal\"");
  ExpectValue("s", "a</tool_call> b", "\"a</tool_call> b\"");
}

TEST(ToolCallParser, ADeclaredNameNeedsNoOpener) {
  const std::string call = "<function=f>\n<parameter=i>\n1\n</parameter>\n</function>";
  ExpectEvents(call, "#0 f{\"i\": 1};");
  ExpectEvents("Look:\n" + call + "\n</tool_call>\n" + call,
               "[Look:\n]#0 f{\"i\": 1};#1 f{\"i\": 1};");
  ExpectEvents("<function=g>\n</function>", "#0 g{};");
  for (const std::string_view text :
       {"<function=unknown>\n</function>", "say <function=f> to call", "<function=f>\n<para",
        "<function=f>", "<function=f", "<function=", " <funct", "<function=f></tool_call>"}) {
    ExpectEvents(text, "[" + std::string(text) + "]");
  }
}

TEST(ToolCallParser, AConstraintNeedsTheOpener) {
  ToolCallParser parser(Tools(), ToolCallParser::Opener::kRequired);
  const std::string call = "<function=g>\n</function>";
  EXPECT_EQ(Shown(parser.Feed(call + "<tool_call>" + call + "</tool_call>")),
            "[" + call + "]#0 g{};");
}

TEST(ToolCallParser, WhiteSpaceBesideTextIsKept) {
  const std::string call = CallOf("i", "1");
  const std::string event = "#0 f{\"i\": 1};";
  ExpectEvents("a \n\n" + call + "\n\t b \n", "[a \n\n]" + event + "[\n\t b \n]");
  ExpectEvents("\n a" + call, "[\n a]" + event);
  ExpectEvents("\n\n" + call + "\n\n", event);
  ExpectEvents("<tool_call><function=g></function> \n x", "#0 g{};[ \n x]");
  ExpectEvents(" \n", "[ \n]");
}

TEST(ToolCallParser, ARepeatedParameterIsPassedOver) {
  ExpectEvents(
      "<tool_call><function=f><parameter=s>x</parameter><parameter=i>1</parameter>"
      "<parameter=s>y</parameter><parameter=i>2</parameter></function></tool_call>",
      "#0 f{\"s\": \"x\", \"i\": 1};");
}

TEST(ToolCallParser, TypesHoldTogether) {
  const OrderedJson tools = ParseOrderedJson(R"([{"function": {"name": "f", "parameters": {
      "allOf": [{"properties": {"a": {"type": ["string", "integer"]}}},
                {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/x~1y"},
                                "c": {"minimum": 1}, "d": {"type": ["string", "null"]},
                                "e": {"anyOf": [{"type": "string"}, {"type": "array"}]},
                                "g": {"type": ["string", "null"], "enum": ["null", "x"]},
                                "h": {"allOf": [{"type": "number"}, {"enum": [1, 2]}]}}}],
      "$defs": {"x/y": {"type": "integer"}}}}}])",
                                             "tools")
                                .value();
  const ToolSchemas schemas(tools);
  const auto json = [&](std::string_view name, std::string_view text) {
    return JsonOfTypes(text, schemas.TypesOf("f", name)).value_or("text");
  };
  EXPECT_EQ(json("a", "5"), "text");
  EXPECT_EQ(json("b", "5"), "5");
  EXPECT_EQ(json("c", "5"), "5");
  EXPECT_EQ(json("d", "null"), "null");
  EXPECT_EQ(json("d", "\"x\""), "text");  // quotes are part of it
  EXPECT_EQ(json("e", "\"x\""), "\"x\"");
  EXPECT_EQ(json("e", "x"), "text");
  EXPECT_EQ(json("g", "null"), "text");
  EXPECT_EQ(json("h", "1"), "1");
  EXPECT_TRUE(schemas.Takes("f", "b"));
  EXPECT_FALSE(schemas.Takes("f", "z"));
}

TEST(ToolCallParser, StringsAreStreamed) {
  ToolCallParser parser(Tools());
  parser.Feed("<tool_call><function=f><parameter=s>\n");
  EXPECT_EQ(Shown(parser.Feed("abc")), "abc");
  EXPECT_EQ(Shown(parser.Feed("d\n")), "d");
  EXPECT_EQ(Shown(parser.Feed("e</para")), "\\ne");
  EXPECT_EQ(Shown(parser.Feed("meter>")), "\"");
}

TEST(ToolCallParser, WithoutToolsNothingIsACall) {
  ToolCallParser parser(nullptr);
  const std::string text = CallOf("s", "x");
  std::string out = Shown(parser.Feed(text));
  out += Shown(parser.Finish());
  EXPECT_NE(out.find("<function=f>"), std::string::npos);
  EXPECT_EQ(out.find('#'), std::string::npos);
}

}  // namespace
}  // namespace kv8
