#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kv8 {
namespace {

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

using Pieces = std::vector<std::string>;

Pieces Split(std::string_view regex, std::string_view text) {
  const SplitRule* rule = FindSplitRule(regex);
  if (rule == nullptr) return {"no such rule"};
  PieceScanner scanner(text, *rule, Unicode::Get());
  Pieces pieces;
  for (auto piece = scanner.Next(); !piece.empty(); piece = scanner.Next()) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

Pieces Split(std::string_view text) {
  return Split(kQwen35, text);
}

TEST(FindSplitRule, KnowsOnlyTheTwoExpressions) {
  EXPECT_NE(FindSplitRule(kQwen2), nullptr);
  EXPECT_NE(FindSplitRule(kQwen35), nullptr);
  EXPECT_NE(FindSplitRule(kQwen2), FindSplitRule(kQwen35));
  EXPECT_EQ(FindSplitRule(""), nullptr);
  EXPECT_EQ(FindSplitRule(kQwen2.substr(1)), nullptr);
}

TEST(PieceScanner, Words) {
  EXPECT_EQ(Split(""), Pieces{});
  EXPECT_EQ(Split("Hello, big world"), (Pieces{"Hello", ",", " big", " world"}));
  EXPECT_EQ(Split("\tx(y)_z"), (Pieces{"\tx", "(y", ")_", "z"}));
  EXPECT_EQ(Split("\u4E2D\u6587\u3002\u5B57"), (Pieces{"\u4E2D\u6587", "\u3002\u5B57"}));
}

TEST(PieceScanner, NumbersStandAlone) {
  EXPECT_EQ(Split("a12 3"), (Pieces{"a", "1", "2", " ", "3"}));
  EXPECT_EQ(Split("\u0661\u216B"), (Pieces{"\u0661", "\u216B"}));
}

TEST(PieceScanner, ContractionsInAnyCase) {
  EXPECT_EQ(Split("it's I'LL they'Re"), (Pieces{"it", "'s", " I", "'LL", " they", "'Re"}));
  EXPECT_EQ(Split("'sx"), (Pieces{"'s", "x"}));
  EXPECT_EQ(Split("x'\u017Fy"), (Pieces{"x", "'\u017F", "y"}));  // long s
  EXPECT_EQ(Split("'l'r'v'"), (Pieces{"'l", "'r", "'v", "'"}));
  EXPECT_EQ(Split("''s"), (Pieces{"''", "s"}));
}

TEST(PieceScanner, Symbols) {
  EXPECT_EQ(Split(" ...\r\n\nx"), (Pieces{" ...\r\n\n", "x"}));
  EXPECT_EQ(Split("  !!"), (Pieces{" ", " !!"}));
  EXPECT_EQ(Split("!a"), (Pieces{"!a"}));
  EXPECT_EQ(Split("!!a"), (Pieces{"!!", "a"}));
}

TEST(PieceScanner, WhiteSpace) {
  EXPECT_EQ(Split("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(Split("a  "), (Pieces{"a", "  "}));
  EXPECT_EQ(Split("a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(Split("1\t2"), (Pieces{"1", "\t", "2"}));
  EXPECT_EQ(Split("\u00A0\u3000x"), (Pieces{"\u00A0", "\u3000x"}));
  EXPECT_EQ(Split("\u2028\u2028"), (Pieces{"\u2028\u2028"}));
}

TEST(PieceScanner, MarksBelongToWordsSinceQwen35) {
  EXPECT_EQ(Split(kQwen35, "q\u0301q 1\u0301"), (Pieces{"q\u0301q", " ", "1", "\u0301"}));
  EXPECT_EQ(Split(kQwen2, "q\u0301q 1\u0301"), (Pieces{"q", "\u0301q", " ", "1", "\u0301"}));
  EXPECT_EQ(Split(kQwen35, " \u0301!"), (Pieces{" \u0301", "!"}));
  EXPECT_EQ(Split(kQwen2, " \u0301!"), (Pieces{" \u0301!"}));
}

}  // namespace
}  // namespace kv8
