#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stop_token>
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
  KV8_ASSIGN_OR_RETURN(MarkedText text, parsed.Render(variables, limits));
  return std::move(text).Take();
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

void ExpectEnds(std::string_view source, std::optional<Code> code) {
  Limits limits;
  if (code) limits.work /= 10;
  const auto start = std::chrono::steady_clock::now();
  const auto text = Render(source, {}, limits);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(text.ok() ? std::nullopt : std::optional(text.error().code), code)
      << source << ": " << (text.ok() ? "" : text.error().ToString());
  EXPECT_LT(taken.count(), 60) << source;
}

// Each takes minutes where a search, or an index, is not linear.
TEST(Jinja, SearchesAreLinear) {
  ExpectEnds("{{ ('a' * 2000000).find('a' * 1000000 ~ 'b') }}", std::nullopt);
  ExpectEnds("{{ ('a' * 2000000).rfind('b' ~ 'a' * 1000000) }}", std::nullopt);
  ExpectEnds("{{ 'a' * 1000000 ~ 'b' in 'a' * 2000000 }}", std::nullopt);
  ExpectEnds("{{ ('a' * 2000000).count('a' * 1000000 ~ 'b') }}", std::nullopt);
  ExpectEnds("{{ ('a' * 2000000).replace('a' * 1000000 ~ 'b', '') | length }}", std::nullopt);
  ExpectEnds("{{ ('a' * 2000000).rsplit('b' ~ 'a' * 1000000) | length }}", std::nullopt);
  ExpectEnds(
      "{% set s = 'é' * 3000000 %}{% for i in range(20000) %}{% set c = s[i * 150] %}{% endfor %}",
      std::nullopt);
  ExpectEnds(
      "{% set s = 'é' * 3000000 %}{% for i in range(20000) %}{% set c = s[-3:] %}{% endfor %}",
      std::nullopt);
}

TEST(Jinja, BuiltInsKeepToTheBudget) {
  ExpectEnds(
      "{% set s = 'é' * 3000000 %}{% for i in range(20000) %}{% set c = s.find('é', 9) %}{% endfor "
      "%}",
      Code::kResourceExhausted);
  ExpectEnds(
      "{% set s = 'é' * 3000000 %}{% for i in range(20000) %}{% set c = s.count('x') %}{% endfor "
      "%}",
      Code::kResourceExhausted);
  ExpectEnds(
      "{% set s = 'é' * 3000000 %}{% for i in range(20000) %}{% set c = s | wordcount %}{% endfor "
      "%}",
      Code::kResourceExhausted);
  ExpectEnds(
      "{% set l = [1] * 900000 %}{% for i in range(20000) %}{% set c = l | wordcount %}{% endfor "
      "%}",
      Code::kResourceExhausted);
  ExpectEnds("{{ 'a' * 60000000 }}", Code::kResourceExhausted);
  ExpectEnds("{{ ('\\t' * 1000000).expandtabs(1000000) }}", Code::kResourceExhausted);
  ExpectEnds("{{ namespace(**dict(range(100000) | map('string') | batch(2))) is mapping }}",
             std::nullopt);
}

TEST(Jinja, LiveMemoryIsBounded) {
  const std::string_view keeps =
      "{% set ns = namespace(all=[]) %}{% for i in range(20) %}"
      "{% set ns.all = ns.all + ['a' * 1000000] %}{% endfor %}{{ ns.all | length }}";
  const std::string_view drops =
      "{% for i in range(100) %}{% set s = 'a' * 1000000 %}{% endfor %}done";
  Limits limits;
  limits.memory_bytes = 10'000'000;
  EXPECT_EQ(RenderError(keeps, limits).code, Code::kResourceExhausted);
  EXPECT_EQ(Render(drops, {}, limits).value(), "done");
  EXPECT_EQ(Render(keeps).value(), "20");
}

TEST(Jinja, StopsWhenAskedTo) {
  std::stop_source source;
  Limits limits;
  limits.stop = source.get_token();
  EXPECT_EQ(Render("{{ 1 + 1 }}", {}, limits).value(), "2");
  source.request_stop();
  EXPECT_EQ(RenderError("{{ 1 + 1 }}", limits).code, Code::kCancelled);
}

TEST(Jinja, ManyNamesTakeLinearTime) {
  Template::Variables variables;
  std::string keys = "{";
  for (int i = 0; i < 200000; ++i) keys += fmt::format("{}\"key{}\": {}", i ? "," : "", i, i);
  const auto json = ParseOrderedJson(keys + "}", "keys");
  for (const auto& [name, value] : json->items()) {
    variables.emplace_back(name, FromJson(value).value());
  }
  variables.emplace_back("all", FromJson(*json).value());
  EXPECT_EQ(Render("{{ key199999 }} {{ all.key77777 }} {{ all | length }}", variables).value(),
            "199999 77777 200000");
}

/// The output, with what the model wrote in square brackets and what others did in braces.
std::string Marked(std::string_view source) {
  const Template::Variables variables = {{"q", FromJson("<Q> q").value()},
                                         {"d", FromJson({{"Qk", {"Q1", 2}}}).value()},
                                         {"a", FromJson("Qa", Author::kAssistant).value()}};
  const auto text = Template::Parse(source, "t.jinja")->Render(variables);
  if (!text.ok()) return text.error().ToString();
  std::string out;
  text->ForEachRun([&out](std::string_view run, Author author) {
    if (author == Author::kTemplate) out += run;
    if (author == Author::kAssistant) out += fmt::format("[{}]", run);
    if (author == Author::kOther) out += fmt::format("{{{}}}", run);
  });
  return out;
}

TEST(Jinja, TextKeepsItsAuthors) {
  EXPECT_EQ(Marked("a{{ q }}b{{ a }}c"), "a{<Q> q}b[Qa]c");
  EXPECT_EQ(Marked("{{ 'x' ~ q ~ 'y' + a }}"), "x{<Q> q}y[Qa]");
  EXPECT_EQ(Marked("{{ (' ' ~ q ~ ' ') | trim }}"), "{<Q> q}");
  EXPECT_EQ(Marked("{{ ('-' ~ q)[:2] }}|{{ q[1] }}|{{ ('x' ~ q)[::-1] }}"), "-{<}|{Q}|{q >Q<}x");
  EXPECT_EQ(Marked("{{ ('x,' ~ q).split(',') | join(';') }}"), "x;{<Q> q}");
  EXPECT_EQ(Marked("{{ q.replace('Q', 'R') }} {{ 'aXb'.replace('X', a) }}"), "{<}R{> q} a[Qa]b");
  EXPECT_EQ(Marked("{{ q | upper }}{{ ('x' ~ a) | lower }}"), "{<Q> Q}[xqa]");
  EXPECT_EQ(Marked("{{ d | tojson }}"), "{\"{Qk}\": [\"{Q1}\", 2]}");
  EXPECT_EQ(Marked("{{ d }}"), "{{'Qk'}: [{'Q1'}, 2]}");
  EXPECT_EQ(Marked("{{ 'x%sy' % q }}{{ '{:>5}{}'.format(a, 'z') }}"), "x{<Q> q}y[   Qa]z");
  EXPECT_EQ(Marked("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(a) }}"), "<[Qa]>");
  EXPECT_EQ(Marked("{% set x %}<{{ a }}>{% endset %}{{ x * 2 }}"), "<[Qa]><[Qa]>");
  EXPECT_EQ(Marked("{{ ('l\\n' ~ a) | indent }}"), "l\n    [Qa]");
  EXPECT_EQ(Marked("{{ q == '<Q> q' }}{{ q.startswith('<Q>') }}{{ 'Q' in q }}"), "TrueTrueTrue");
}

// One a line.
constexpr std::string_view kFunctions = R"(
q | capitalize
q | center(20)
q | escape
'%s' | format(q)
q | indent(2, true)
q | lower
q | replace('<', '(')
'-' | replace('-', q)
q | safe
q | string
q | title
q | tojson
q | trim
q | truncate(3, true, '')
q | upper
q | last
q | list
q | join('')
[q, q] | join
'ab' | join(q)
q | reverse
q | batch(2) | list
q | slice(2) | list
[q] | map('upper') | list
[q] | sum(start='') if false else q
[q] | sort | first
[q] | unique | first
[q] | max
[q] | groupby(0) | list
d | dictsort
d | items | list
d.items() | list
d.keys() | list
d.values() | list
q.center(20)
q.ljust(9)
q.rjust(9)
'Q'[:0].center(9, q[1])
q.expandtabs()
'{}'.format(q)
'{x!r:>9}'.format(x=q)
(q[1] ~ '{}').format(1)
q.join(['', ''])
q.lstrip('<')
q.rstrip('q')
q.strip()
q.partition(' ')
q.partition('Q')[1] ~ q.rpartition('>')[0]
q.removeprefix('<')
q.removesuffix('q')
q.replace('<', q)
q.rsplit('>')
q.split('<')
q.splitlines()
q.capitalize()
q.lower()
q.swapcase() if false else q
q.title()
q.upper()
q.zfill(20)
q.casefold()
joiner(q)() ~ q
cycler(q).next()
namespace(x=q).x
dict(x=q)
q ~ ''
q + ''
q * 2
q % ()
(q | upper) ~ (d | tojson(indent=2))
q[1:2]
q[::2]
q | default('x')
[q] | random if false else q
d | tojson(ensure_ascii=true)
q | urlencode)";

// Whatever a template does with the text of others, no byte of it passes as the template's own.
TEST(Jinja, NoFunctionLaundersText) {
  std::istringstream functions{std::string(kFunctions.substr(1))};
  for (std::string function; std::getline(functions, function);) {
    const std::string shown = Marked("{{ " + function + " }}");
    std::string outside;  // of the braces that Marked puts around the text of others
    int depth = 0;
    for (const char c : shown) {
      depth += c == '{' ? 1 : 0;
      if (depth == 0) outside += c;
      depth -= c == '}' && depth > 0 ? 1 : 0;
    }
    EXPECT_EQ(outside.find_first_of("Qq"), std::string::npos) << function << ": " << shown;
    EXPECT_NE(shown.find_first_of("Qq"), std::string::npos) << function << ": " << shown;
  }
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
}

TEST(Jinja, TimeIsThatOfTheMachine) {
  const std::string year = Render("{{ strftime_now('%Y') }}").value();
  EXPECT_EQ(year.size(), 4u);
  EXPECT_GE(year, "2024");
}

}  // namespace
}  // namespace kv8::jinja
