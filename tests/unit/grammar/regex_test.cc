// Regular expressions: the same texts as std::regex, and Unicode where that has none.
#include "grammar/regex.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

#include "grammar/json_schema.h"
#include "grammar_text.h"

namespace kv8::test {
namespace {

using testing::HasSubstr;

bool Has(std::string_view pattern, std::string_view text) {
  const auto program = CompileRegex(pattern);
  EXPECT_TRUE(program.ok()) << program.error().ToString();
  if (!program.ok()) return false;
  Machine machine(*program);
  return Matches(machine, text);
}

/// A random expression over a, b, c and 1.
std::string RandomRegex(std::mt19937& random, int depth) {
  static const char* const kAtoms[] = {"a",   "b",    "c",    "1",      ".",   "\\d",
                                       "\\w", "[ab]", "[^a]", "[a-c1]", "\\D", "[^\\d]"};
  static const char* const kQuantifiers[] = {"*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0,2}"};
  switch (random() % (depth > 3 ? 2 : 6)) {
    case 0:
    case 1:
      return kAtoms[random() % std::size(kAtoms)];
    case 2:
      return RandomRegex(random, depth + 1) + RandomRegex(random, depth + 1);
    case 3:
      return fmt::format("({}|{})", RandomRegex(random, depth + 1), RandomRegex(random, depth + 1));
    case 4:
      return fmt::format("(?:{}){}", RandomRegex(random, depth + 1),
                         kQuantifiers[random() % std::size(kQuantifiers)]);
    default:
      return RandomRegex(random, depth + 1) + RandomRegex(random, depth + 1);
  }
}

TEST(Regex, MatchesWhatStdRegexMatches) {
  std::mt19937 random(3);
  int matches = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = RandomRegex(random, 0);
    const auto program = CompileRegex(pattern);
    ASSERT_TRUE(program.ok()) << pattern << program.error().ToString();
    Machine machine(*program);
    const std::regex expected(pattern);
    for (int j = 0; j < 60; ++j) {
      std::string text;
      for (std::size_t n = random() % 7; n > 0; --n) text += "abc1"[random() % 4];
      const bool match = std::regex_match(text, expected);
      matches += match ? 1 : 0;
      ASSERT_EQ(Matches(machine, text), match) << pattern << " on " << text;
    }
  }
  EXPECT_GT(matches, 1000);
}

TEST(Regex, SearchesLikeStdRegexInAJsonString) {
  const char* const patterns[] = {"a", "^a", "a$", "^a$", "ab|^b", "^(a|b)+$|c", "a.b", "^$", ""};
  std::mt19937 random(5);
  for (const char* pattern : patterns) {
    const auto program = CompileJsonSchema({{"type", "string"}, {"pattern", pattern}});
    ASSERT_TRUE(program.ok()) << pattern << program.error().ToString();
    Machine machine(*program);
    for (int j = 0; j < 200; ++j) {
      std::string text;
      for (std::size_t n = random() % 5; n > 0; --n) text += "abc"[random() % 3];
      EXPECT_EQ(Matches(machine, fmt::format("\"{}\"", text)),
                std::regex_search(text, std::regex(pattern)))
          << pattern << " on " << text;
    }
  }
}

TEST(Regex, UnicodeCharactersAreWhole) {
  EXPECT_TRUE(Has("[à-ö]+", "éöà"));
  EXPECT_FALSE(Has("[à-ö]+", "÷"));
  EXPECT_TRUE(Has("😀{2}", "😀😀"));
  EXPECT_TRUE(Has("..", "é😀"));
  EXPECT_FALSE(Has(".", "\xC3"));
  EXPECT_FALSE(Has("[^a]", "\xED\xA0\x80"));
  EXPECT_TRUE(Has(R"(\u00e9\u{1F600}\ud83d\ude00\x41)", "é😀😀A"));
  EXPECT_TRUE(Has(R"(\s\S)", "\u2003x"));
  EXPECT_FALSE(Has(".", "\n"));
}

TEST(Regex, CategoriesOfUnicode) {
  EXPECT_TRUE(Has("\\p{L}+", "aZéЖ語"));
  EXPECT_FALSE(Has("\\p{L}", "1"));
  EXPECT_TRUE(Has("\\p{N}+", "1٣Ⅷ"));
  EXPECT_TRUE(Has("[\\p{L}\\p{M}'-]+", "O'Brien-e\u0301"));
  EXPECT_TRUE(Has("\\P{L}+", "12 !"));
  EXPECT_FALSE(Has("\\P{L}", "é"));
  EXPECT_TRUE(Has("[^\\p{N}]", "x"));
  const auto program = CompileRegex("\\p{L}{1,40}");
  ASSERT_TRUE(program.ok());
  EXPECT_LT(program->code.size(), 2000u);
}

TEST(Regex, EveryRangeOfCharactersIsExact) {
  std::mt19937 random(9);
  const char32_t edges[] = {0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};
  const auto pick = [&]() -> char32_t {
    const char32_t c =
        random() % 2 == 0 ? edges[random() % std::size(edges)] + random() % 3 : random() % 0x110000;
    return c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0xE000 : c;
  };
  for (int i = 0; i < 100; ++i) {
    const char32_t a = pick();
    const char32_t b = pick();
    const CharSet chars = CharSet().Add(std::min(a, b), std::max(a, b));
    ProgramBuilder builder;
    const RuleId rule = builder.AddRule();
    builder.SetEntry(rule, AddChars(builder, chars, TextForm::kPlain, kReturnPc));
    const auto program = std::move(builder).Finish(rule, "test");
    ASSERT_TRUE(program.ok());
    Machine machine(*program);
    for (int j = 0; j < 100; ++j) {
      const char32_t c = j % 3 == 0 ? pick() : j % 3 == 1 ? std::min(a, b) + random() % 5 : a;
      if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) continue;
      EXPECT_EQ(Matches(machine, Written(c, TextForm::kPlain)), chars.Has(c))
          << std::hex << unsigned{a} << ' ' << unsigned{b} << ' ' << unsigned{c};
    }
  }
}

TEST(Regex, CountsTakeNoSpace) {
  const auto program = CompileRegex("(?:[ab]c){2,90000}");
  ASSERT_TRUE(program.ok());
  EXPECT_LT(program->code.size(), 20u);
  Machine machine(*program);
  EXPECT_FALSE(Matches(machine, "ac"));
  EXPECT_TRUE(Matches(machine, "acbcac"));
}

TEST(Regex, BracesAndAnchors) {
  EXPECT_TRUE(Has("{a}{1}", "{a}"));
  EXPECT_TRUE(Has("^ab$|^c$", "c"));
  EXPECT_TRUE(Has("(?<year>\\d{4})-(?P<m>\\d\\d)", "2024-02"));
  EXPECT_TRUE(Has("a{,2}", "a{,2}"));
  EXPECT_TRUE(Has("[\\]a-]+", "]-a"));
}

struct RefusedPattern {
  const char* pattern;
  Code code;
  const char* what;
};

TEST(Regex, RefusesWhatItCannotHonour) {
  const RefusedPattern cases[] = {
      {"(a", Code::kInvalidArgument, "a group is not closed at byte 2"},
      {"a)", Code::kInvalidArgument, "closes no group at byte 1"},
      {"[a", Code::kInvalidArgument, "a class is not closed"},
      {"[]", Code::kInvalidArgument, "an empty class"},
      {"[b-a]", Code::kInvalidArgument, "upside down"},
      {"*a", Code::kInvalidArgument, "nothing before *"},
      {"a**", Code::kInvalidArgument, "a quantifier of a quantifier"},
      {"a{3,2}", Code::kInvalidArgument, "upside down"},
      {"\\", Code::kInvalidArgument, "nothing after the backslash"},
      {"\\xg1", Code::kInvalidArgument, "hex digits"},
      {"\\ud800", Code::kInvalidArgument, "not a Unicode character"},
      {"\xff", Code::kInvalidArgument, "not UTF-8"},
      {"(?=a)", Code::kUnsupported, "lookaround"},
      {"(?<!a)", Code::kUnsupported, "lookaround"},
      {"(a)\\1", Code::kUnsupported, "the escape \\1"},
      {"\\bword", Code::kUnsupported, "\\b"},
      {"\\p{Lu}", Code::kUnsupported, "the class \\p{Lu}"},
      {"\\pL", Code::kInvalidArgument, "\\p without"},
      {"a++", Code::kUnsupported, "possessive"},
      {"a^b", Code::kUnsupported, "^ inside"},
      {"(a$)", Code::kUnsupported, "$ inside"},
      {"a{200000}", Code::kResourceExhausted, "repetitions"},
  };
  for (const auto& [pattern, code, what] : cases) {
    const auto program = CompileRegex(pattern);
    ASSERT_FALSE(program.ok()) << pattern;
    EXPECT_EQ(program.error().code, code) << pattern << program.error().ToString();
    EXPECT_THAT(program.error().what, HasSubstr(what)) << pattern;
  }
  EXPECT_EQ(CompileRegex(std::string(200, '(')).error().code, Code::kResourceExhausted);
  EXPECT_EQ(CompileRegex(std::string(20'000, 'a')).error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace kv8::test
