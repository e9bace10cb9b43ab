#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/ordered_json.h"
#include "jinja/json_text.h"
#include "jinja/template.h"

namespace kv8::jinja {
namespace {

OrderedJson ReadDocument(std::string_view name) {
  const auto path = std::filesystem::path(KV8_SOURCE_DIR) / "tests/chat" / name;
  return ParseOrderedJson(ReadFile(path, 1 << 24).value(), name).value();
}

Template::Variables VariablesOf(const OrderedJson& json) {
  Template::Variables variables;
  for (const auto& [name, value] : json.items()) {
    variables.emplace_back(name, FromJson(value).value());
  }
  return variables;
}

Result<std::string> Render(std::string_view source, const Template::Variables& variables = {},
                           const Limits& limits = {}) {
  KV8_ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source, "t.jinja"));
  return parsed.Render(variables, limits);
}

Error RenderError(std::string_view source, const Limits& limits = {}) {
  auto text = Render(source, {}, limits);
  EXPECT_FALSE(text.ok()) << source << " gives " << (text.ok() ? *text : "");
  return text.ok() ? Error{} : text.error();
}

// Every rule of the language that a snippet shows, as jinja2 has it with transformers' settings.
TEST(Jinja, SnippetsGiveWhatPythonGives) {
  const OrderedJson document = ReadDocument("snippets.json");
  const Template::Variables variables = VariablesOf(document["variables"]);
  for (const OrderedJson& snippet : document["cases"]) {
    const auto source = snippet["template"].get<std::string>();
    const auto text = Render(source, variables);
    if (snippet["expected"].is_null()) {
      EXPECT_FALSE(text.ok()) << source << "\ngives " << (text.ok() ? *text : "");
    } else if (text.ok()) {
      EXPECT_EQ(*text, snippet["expected"].get<std::string>()) << source;
    } else {
      ADD_FAILURE() << source << "\n" << text.error().ToString();
    }
  }
}

TEST(Jinja, SyntaxErrorsNameTemplateAndLine) {
  const Error error = RenderError("a\n{% if true %}\n{{ 1 + }}\n{% endif %}");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.where, "t.jinja:3");
  EXPECT_EQ(error.what, "expected an expression, found '}}'");
}

TEST(Jinja, RuntimeErrorsNameTheLineOfTheirCause) {
  const Error raised =
      RenderError("{% macro m() %}\n{{ raise_exception('no') }}{% endmacro %}\n\n{{ m() }}");
  EXPECT_EQ(raised.code, Code::kInvalidArgument);
  EXPECT_EQ(raised.where, "t.jinja:2");
  EXPECT_EQ(raised.what, "no");
  EXPECT_EQ(RenderError("\n\n{{ missing.attribute }}").ToString(),
            "t.jinja:3: 'missing' is undefined");
  EXPECT_EQ(RenderError("{{ 'a' + 1 }}").what,
            "unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(RenderError("{{ [].append(1) }}").what,
            "access to attribute 'append' of 'list' object is unsafe: templates cannot change "
            "lists and dicts");
}

TEST(Jinja, EndlessWorkIsAnError) {
  Limits limits;
  limits.work = 100000;
  const auto exhausted = [&limits](std::string_view source) {
    const Error error = RenderError(source, limits);
    EXPECT_EQ(error.code, Code::kResourceExhausted) << source << ": " << error.ToString();
    EXPECT_TRUE(error.where.starts_with("t.jinja:1")) << error.where;
  };
  exhausted("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}");
  exhausted("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  exhausted("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  exhausted("{{ 'x' * 100000000 }}");
  exhausted("{{ [1] * 100000000 }}");
  exhausted(
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  exhausted(
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}"
      "{% set ns.s = ns.s | replace('x', 'xx') %}{% endfor %}");
  exhausted(
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% endfor %}");
  exhausted(
      "{% set ns = namespace(l=[1]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}"
      "{% endfor %}");
  exhausted("{{ 'a'.center(100000000) }}");
}

TEST(Jinja, OutputIsBounded) {
  Limits limits;
  limits.output_bytes = 10;
  EXPECT_EQ(Render("{{ 'x' * 10 }}", {}, limits).value(), "xxxxxxxxxx");
  EXPECT_EQ(RenderError("{{ 'x' * 11 }}", limits).code, Code::kResourceExhausted);
}

TEST(Jinja, SourcesOfAnyDepthAreRefusedInTime) {
  const auto repeat = [](std::string_view part, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += part;
    return out;
  };
  for (const std::string_view open :
       {"(", "[", "{1:", "not ", "-", "x[", "f(", "1 if ", "a.b|c("}) {
    EXPECT_EQ(RenderError("{{ " + repeat(open, 10000)).code, Code::kCorrupt) << open;
  }
  EXPECT_EQ(RenderError("{{ 1" + repeat(" + 1", 10000) + " }}").code, Code::kCorrupt);
  EXPECT_EQ(RenderError("{{ x" + repeat(".y", 10000) + " }}").code, Code::kCorrupt);
  EXPECT_EQ(RenderError("{{ x" + repeat("|y", 10000) + " }}").code, Code::kCorrupt);
  EXPECT_EQ(RenderError(repeat("{% if true %}", 10000)).code, Code::kCorrupt);
  EXPECT_EQ(RenderError("{% set " + repeat("(", 10000)).code, Code::kCorrupt);
  EXPECT_EQ(Render("{{ ''" + repeat(" ~ 'a'", 10000) + " }}").value(), repeat("a", 10000));
}

TEST(Jinja, CirclesOfReferencesEnd) {
  // Under AddressSanitizer a circle that is not broken is a leak.
  EXPECT_TRUE(Render("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{{ ns.me.x }}"
                     "{% endmacro %}{% set ns.m = m %}{{ ns.m() }}")
                  .ok());
  EXPECT_TRUE(Render("{% set ns = namespace() %}{% for x in [1, 2] %}{% macro m() %}{% endmacro %}"
                     "{% set ns.l = loop %}{% set ns.c = loop.cycle %}{{ loop.changed(loop) }}"
                     "{% endfor %}{{ ns.c(1, 2) }}")
                  .ok());
}

TEST(Jinja, ChainsOfObjectsEnd) {
  // Taking a chain apart goes down it: its length must be bounded.
  const auto grow = [](std::string_view step) {
    return Render("{% set ns = namespace(x=1) %}{% for i in range(20000) %}" + std::string(step) +
                  "{% endfor %}");
  };
  EXPECT_FALSE(grow("{% set ns.x = cycler(ns.x) %}").ok());
  EXPECT_FALSE(grow("{% set ns.x = [ns.x].index %}").ok());
  EXPECT_FALSE(grow("{% set ns.x = cycler(ns.x).next %}").ok());
  EXPECT_TRUE(grow("{% for j in [ns.x] %}{% set ns.x = loop %}{% endfor %}").ok());
  EXPECT_TRUE(grow("{% macro m() %}{% endmacro %}{% set y = ns.x %}{% set ns.x = m %}").ok());
  EXPECT_TRUE(grow("{% set ns.x = namespace(x=ns.x) %}").ok());
}

TEST(Jinja, InvalidTextIsRefused) {
  EXPECT_EQ(RenderError("a\xff").code, Code::kCorrupt);
  EXPECT_EQ(FromJson(OrderedJson("a\xff")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(FromJson(OrderedJson(UINT64_MAX)).error().code, Code::kInvalidArgument);
}

TEST(Jinja, TimeIsThatOfTheMachine) {
  const std::string year = Render("{{ strftime_now('%Y') }}").value();
  EXPECT_EQ(year.size(), 4u);
  EXPECT_GE(year, "2024");
}

}  // namespace
}  // namespace kv8::jinja
