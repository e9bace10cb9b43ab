// Calls that a grammar admits are read as calls whose arguments satisfy the schema.
#include "grammar/call_grammar.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar_text.h"
#include "schema_oracle.h"
#include "support/tool_call_events.h"

namespace kv8::test {
namespace {

using Kind = ToolCallEvent::Kind;

OrderedJson ToolsWith(const OrderedJson& parameters) {
  return OrderedJson::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}}});
}

/// The grammar of calls of one function.
class Grammar {
 public:
  explicit Grammar(std::string_view parameters)
      : schema_(OrderedJson::parse(parameters)), tools_(ToolsWith(schema_)) {
    auto program = CompileCalls(tools_, "", CallSchemas::kAll);
    program_ = std::move(program).value();
    machine_.emplace(program_);
  }

  /// Whether a call with exactly these parameters, in order, is admitted.
  bool Admits(const std::vector<std::pair<std::string, std::string>>& parameters) {
    std::string text = "\n<function=f>\n";
    for (const auto& [name, value] : parameters) {
      text += "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
    }
    return Matches(*machine_, text + "</function>\n");
  }
  bool Admits(const std::string& value) { return Admits({{"a", value}}); }

  /// The arguments that the parser reads from a call; null when there is no complete one.
  OrderedJson Read(const std::string& call) const {
    std::string arguments;
    int calls = 0;
    for (const ToolCallEvent& event :
         ToolCallEvents(tools_, "<tool_call>" + call + "</tool_call>", call.size() + 64)) {
      if (event.kind == Kind::kArguments) arguments += event.text;
      if (event.kind == Kind::kCallEnd) ++calls;
      if (event.kind == Kind::kText || event.kind == Kind::kCallBroken) return nullptr;
    }
    return calls == 1 ? OrderedJson::parse(arguments, nullptr, false) : OrderedJson();
  }

  /// A text of the grammar, fond of tags and of what looks like them; nullopt when it gets long.
  std::optional<std::string> Random(std::mt19937& random) {
    static const std::vector<std::string> pieces = {"\n</parameter>\n",
                                                    "</parameter",
                                                    "</function>\n",
                                                    "<parameter=",
                                                    "<",
                                                    "</",
                                                    "</para",
                                                    "<para",
                                                    "</tool",
                                                    "null",
                                                    "\"",
                                                    "\\",
                                                    "1",
                                                    "0",
                                                    "]",
                                                    "}",
                                                    "</p>",
                                                    "true",
                                                    "é"};
    std::string text;
    StateId state = machine_->start();
    while (text.size() < 3000) {
      if (machine_->finished(state)) return text;
      std::string next =
          text.size() > 400 ? pieces[random() % 3] : pieces[random() % pieces.size()];
      if (random() % 3 == 0) next = std::string(1, static_cast<char>(random() % 256));
      if (machine_->Run(state, next) == kDeadState) next = AnyByte(state, random);
      if (next.empty()) {
        ADD_FAILURE() << "nothing goes on after " << text;
        return std::nullopt;
      }
      text += next;
      state = machine_->Run(state, next);
    }
    return std::nullopt;
  }

  const OrderedJson& schema() const { return schema_; }

 private:
  /// A byte that may come next; empty when there is none.
  std::string AnyByte(StateId state, std::mt19937& random) {
    std::string next;
    for (int byte = 0; byte < 256; ++byte) {
      if (machine_->Step(state, static_cast<std::uint8_t>(byte)) == kDeadState) continue;
      if (next.empty() || random() % 8 == 0) next = static_cast<char>(byte);
    }
    return next;
  }

  OrderedJson schema_;
  OrderedJson tools_;
  Program program_;
  std::optional<Machine> machine_;
};

/// Parameters with one required property "a".
std::string WithA(const std::string& schema, const std::string& defs = "{}") {
  return R"({"type": "object", "properties": {"a": )" + schema +
         R"(}, "required": ["a"], "additionalProperties": false, "$defs": )" + defs + "}";
}

void ExpectValues(const std::string& schema, const std::vector<std::string>& in,
                  const std::vector<std::string>& out, const std::string& defs = "{}") {
  Grammar grammar(WithA(schema, defs));
  for (const std::string& value : in) EXPECT_TRUE(grammar.Admits(value)) << schema << " " << value;
  for (const std::string& value : out) {
    EXPECT_FALSE(grammar.Admits(value)) << schema << " " << value;
  }
}

TEST(CallGrammar, ListedValues) {
  ExpectValues(R"({"type": "integer", "enum": [1, 2, 3]})", {"1", "3"}, {"26", "", "\"1\""});
  ExpectValues(R"({"const": "x y"})", {"x y"}, {"x", "\"x y\""});
  ExpectValues(R"({"$ref": "#/$defs/E"})", {"red"}, {"blue", "\"red\""},
               R"({"E": {"enum": ["red", "green"]}})");
  ExpectValues(R"({"anyOf": [{"$ref": "#/$defs/E"}, {"type": "null"}]})", {"red", "null"},
               {"blue", "None"}, R"({"E": {"enum": ["red", "green"]}})");
  ExpectValues(R"({"enum": ["x", 2, null]})", {"\"x\"", "2", "null"}, {"x", "\"2\"", "3"});
}

TEST(CallGrammar, NumbersAndNullableTypes) {
  ExpectValues(R"({"type": "integer", "minimum": 3, "maximum": 12})", {"3", "12"}, {"2", "13"});
  ExpectValues(R"({"type": ["integer", "null"]})", {"-5", "null"}, {"x", "1.5", ""});
  ExpectValues(R"({"type": "number", "exclusiveMinimum": 0})", {"0.5", "7"}, {"0", "-1"});
  ExpectValues(R"({"type": "boolean"})", {"true", "false"}, {"True", "1"});
  ExpectValues(R"({"type": ["string", "null"]})", {"null", "any text", ""}, {});
  ExpectValues(R"({"type": ["string", "integer"]})", {"\"5\"", "5"}, {"x", "05"});
}

TEST(CallGrammar, StringsAsTheyAre) {
  ExpectValues(R"({"type": "string", "pattern": "^[a-z]{2}\\d$"})", {"ab1"}, {"ab", "\"ab1\""});
  ExpectValues(R"({"type": "string", "pattern": "b+"})", {"abc", "b", "<b>\n"}, {"ac"});
  ExpectValues(R"({"type": "string", "minLength": 2, "maxLength": 4})",
               {"ab", "<<<<", "é\n\"x", "</pa", "</b>"}, {"a", "abcde", "</b>x"});
  ExpectValues(R"({"type": "string", "format": "date"})", {"2026-02-28"}, {"2026-02-30", "x"});
  ExpectValues(R"({"type": "string"})",
               {"", "<", "</", "a</b>", "<<//parameter>", "<p>", "</para\n<x", "if (a < b) {}\n\n"},
               {"x\n</parameter>", "</function>", "<parameter=b>", "a</tool_call>"});
}

TEST(CallGrammar, NestedValuesAreJson) {
  ExpectValues(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1})",
               {"[1]", "[1, 2]"}, {"[]", "1", "[\"1\"]", "\"[1]\""});
  ExpectValues(R"({"type": "object", "properties": {"k": {"type": "string", "maxLength": 3}},
                  "required": ["k"], "additionalProperties": false})",
               {R"({"k": "ab<"})"}, {R"({"k": "abcd"})", "{}", "k"});
  ExpectValues(R"({"type": "array", "items": {"type": "string"}})",
               {R"(["<p>", "</para"])", R"(["\u003c/parameter>"])"},
               {R"(["</parameter>"])", R"(["<parameter=x>"])"});
}

TEST(CallGrammar, Gram6_MultiplesAndListedNumbersWithinLimits) {
  ExpectValues(R"({"type": "integer", "multipleOf": 5, "minimum": -5, "maximum": 15})",
               {"-5", "0", "15"}, {"1", "20", "-10", "05", "\"5\"", "5.0"});
  ExpectValues(R"({"type": "number", "multipleOf": 0.01})", {"1", "0.25", "-3.10"}, {"0.001", "x"});
  ExpectValues(R"({"type": ["string", "integer"], "multipleOf": 3})", {"\"4\"", "6"}, {"4"});
  ExpectValues(R"({"enum": [1, 2, 3, 4], "multipleOf": 2, "minimum": 3})", {"4"}, {"2", "3"});
}

TEST(CallGrammar, Gram7_JsonInStrings) {
  // What is all of the value has no quotes, as other strings.
  ExpectValues(R"({"type": "string", "contentMediaType": "application/json",
                   "contentSchema": {"type": "array", "items": {"type": "string"}}})",
               {"[]", R"(["a\"b", "<p>"])"}, {"x", "[1]", R"("[]")", R"(["</parameter>"])"});
  ExpectValues(R"({"type": "object", "properties": {"j": {"type": "string",
                   "contentMediaType": "application/json",
                   "contentSchema": {"properties": {"k": {"type": "string"}}}}}})",
               {R"({"j": "{\"k\": \"a\\\"b\"}"})"}, {R"({"j": {"k": "a"}})", R"({"j": "x"})"});
}

TEST(CallGrammar, ARepeatedKeyLeavesTheValueAnObject) {
  const Grammar grammar(R"({"properties": {"a": {"type": "object", "properties": {
      "k": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
      "b": {"type": "array", "items": {"type": "object"}}}})");
  const OrderedJson arguments = grammar.Read(
      "\n<function=f>\n<parameter=a>\n"
      R"({"k": 1, "x": "1", "y": "2", "k": 7, "x": "3"})"
      "\n</parameter>\n<parameter=b>\n"
      R"([{"a": {"q": 1, "q": 2}, "a": {"q": 3, "q": [4]}}])"
      "\n</parameter>\n</function>\n");
  EXPECT_EQ(arguments["a"].dump(), R"({"k":7,"x":"3","y":"2"})");
  EXPECT_EQ(arguments["b"].dump(), R"([{"a":{"q":[4]}}])");
}

TEST(CallGrammar, OnlyWhatIsDeclared) {
  for (const char* none : {R"({"type": "object", "properties": {}, "additionalProperties": false})",
                           R"({"type": "object", "additionalProperties": false})",
                           R"({"type": "object", "properties": {}})"}) {
    Grammar grammar(none);
    EXPECT_TRUE(grammar.Admits(std::vector<std::pair<std::string, std::string>>{})) << none;
    EXPECT_FALSE(grammar.Admits({{"invented", "x"}})) << none;
  }
  Grammar open(R"({"properties": {"ab": {"type": "integer"}},
                   "additionalProperties": {"type": "boolean"}})");
  EXPECT_TRUE(open.Admits({{"ab", "1"}, {"a", "true"}, {"abc", "false"}, {"b c", "true"}}));
  EXPECT_FALSE(open.Admits({{"a", "true"}, {"ab", "true"}}));
  EXPECT_FALSE(open.Admits({{"c", "1"}}));
  EXPECT_FALSE(open.Admits({{"", "true"}}));
  EXPECT_TRUE(Grammar(R"({"type": "object"})").Admits({{"a", "x"}, {"b", "y"}}));
}

TEST(CallGrammar, CombinedParameters) {
  Grammar grammar(R"({"$defs": {"P": {"properties": {"b": {"type": "integer"}}, "required": ["b"]}},
      "allOf": [{"$ref": "#/$defs/P"}, {"properties": {"c": {"enum": ["x"]}}}]})");
  EXPECT_TRUE(grammar.Admits({{"b", "1"}, {"c", "x"}}));
  EXPECT_FALSE(grammar.Admits({{"c", "x"}}));
  Grammar either(R"({"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
                               {"properties": {"b": {"const": 2}}, "required": ["b"]}]})");
  EXPECT_TRUE(either.Admits({{"a", "1"}}));
  EXPECT_TRUE(either.Admits({{"b", "2"}}));
  EXPECT_FALSE(either.Admits({{"b", "1"}}));
}

TEST(CallGrammar, WhatCannotBeEnforcedIsRefusedByName) {
  const auto refused = [](const char* parameters) {
    const auto program =
        CompileCalls(ToolsWith(OrderedJson::parse(parameters)), "", CallSchemas::kAll);
    EXPECT_FALSE(program.ok()) << parameters;
    return program.ok() ? std::string() : program.error().ToString();
  };
  EXPECT_NE(refused(R"({"properties": {"a": {"not": {}}}})").find("function \"f\", JSON schema #/"),
            std::string::npos);
  EXPECT_NE(refused(R"({"allOf": [{"properties": {"a>b": {}}}]})").find("a>b"), std::string::npos);
  refused(R"({"type": "array"})");
  // Its texts all end the value.
  refused(R"({"properties": {"a": {"const": "</parameter>"}}, "required": ["a"]})");
}

TEST(CallGrammar, OfSomeFunctions) {
  const OrderedJson tools = OrderedJson::parse(R"([
      {"function": {"name": "g.x", "strict": true, "parameters": {"properties": {}}}},
      {"function": {"name": "h", "parameters": {"properties": {"n": {"type": "integer"}}}}},
      {"function": {"name": "i"}}])");
  const auto admits = [&](std::string_view name, CallSchemas schemas, const std::string& text) {
    const Program program = CompileCalls(tools, name, schemas).value();
    Machine machine(program);
    return Matches(machine, text);
  };
  const std::string wrong = "\n<function=h>\n<parameter=n>\nx\n</parameter>\n</function>\n";
  const std::string right = "\n<function=g.x>\n</function>\n";
  EXPECT_TRUE(admits("", CallSchemas::kAll, right));
  EXPECT_FALSE(admits("", CallSchemas::kAll, "\n<function=gyx>\n</function>\n"));
  EXPECT_FALSE(admits("", CallSchemas::kAll, wrong));
  EXPECT_TRUE(admits("", CallSchemas::kStrict, wrong));
  EXPECT_TRUE(admits("", CallSchemas::kStrict, right));
  EXPECT_FALSE(admits("", CallSchemas::kStrict, "\n<function=g.x>\n<parameter=n>"));
  EXPECT_FALSE(admits("h", CallSchemas::kAll, right));
  EXPECT_TRUE(admits("i", CallSchemas::kAll, "\n<function=i>\n</function>\n"));
}

TEST(CallGrammar, WhatItAdmitsIsReadAsACallThatSatisfiesTheSchema) {
  const char* const schemas[] = {
      R"({"properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}},
          "required": ["a"], "additionalProperties": false})",
      R"({"properties": {"a": {"type": "string", "minLength": 3, "maxLength": 12},
          "b": {"type": "string", "minLength": 2}, "c": {"type": "string", "maxLength": 200}},
          "required": ["a", "b", "c"], "additionalProperties": false})",
      R"({"properties": {"a": {"type": "string", "pattern": "^<[ -~]{1,9}>$"},
          "b": {"anyOf": [{"type": "string", "pattern": "<[/a-z]*$"}, {"type": "null"}]}},
          "required": ["a", "b"], "additionalProperties": false})",
      R"({"properties": {"a": {"type": ["string", "integer", "null"]},
          "b": {"anyOf": [{"type": "integer", "maximum": 9}, {"type": "string", "maxLength": 3}]},
          "c": {"enum": ["1", 2, "null", "x"]}}, "required": ["a", "b", "c"],
          "additionalProperties": false})",
      R"({"properties": {"a": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
          "b": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 20}}}},
          "required": ["a", "b"], "additionalProperties": {"type": "integer", "minimum": 0}})",
      R"({"properties": {"a": {"type": "string", "contentMediaType": "application/json",
          "contentSchema": {"type": ["string", "boolean"]}},
          "b": {"type": "integer", "multipleOf": 10},
          "c": {"type": "array", "items": {"type": "string", "contentMediaType":
          "application/json", "contentSchema": {"type": "integer"}}, "maxItems": 2}},
          "required": ["a", "b", "c"], "additionalProperties": false})"};
  std::mt19937 random(5);
  for (const char* schema : schemas) {
    Grammar grammar(schema);
    int texts = 0;
    for (int i = 0; i < 300; ++i) {
      const auto text = grammar.Random(random);
      if (!text) continue;
      ++texts;
      const OrderedJson arguments = grammar.Read(*text);
      ASSERT_TRUE(arguments.is_object()) << *text;
      EXPECT_TRUE(Satisfies(arguments, grammar.schema(), grammar.schema())) << *text << "\n"
                                                                            << arguments.dump();
    }
    EXPECT_GT(texts, 50) << schema;
  }
}

}  // namespace
}  // namespace kv8::test
