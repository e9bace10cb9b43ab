#include "text/unicode.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

int General(char32_t c) {
  return Unicode::Get().ClassOf(c) & (kLetter | kMark | kNumber | kSpace | kNewline);
}

std::string Nfc(std::string_view text) {
  std::string storage;
  return std::string(Unicode::Get().Nfc(text, storage));
}

TEST(Unicode, ClassesOfKnownCharacters) {
  EXPECT_EQ(General(U'a'), kLetter);
  EXPECT_EQ(General(U'中'), kLetter);
  EXPECT_EQ(General(U'7'), kNumber);
  EXPECT_EQ(General(U'\u00B2'), kNumber);  // superscript two: No
  EXPECT_EQ(General(U'\u216B'), kNumber);  // roman numeral twelve: Nl
  EXPECT_EQ(General(U'\u0301'), kMark);
  EXPECT_EQ(General(U'\u0903'), kMark);  // spacing mark: Mc
  EXPECT_EQ(General(U' '), kSpace);
  EXPECT_EQ(General(U'\u0085'), kSpace);
  EXPECT_EQ(General(U'\u3000'), kSpace);
  EXPECT_EQ(General(U'\n'), kSpace | kNewline);
  EXPECT_EQ(General(U'\r'), kSpace | kNewline);
  EXPECT_EQ(General(U'\u200B'), 0);  // zero width space is no white space
  EXPECT_EQ(General(U'!'), 0);
  EXPECT_EQ(General(U'\uE000'), 0);
  EXPECT_EQ(General(U'\U0010FFFF'), 0);
}

// Characters of Unicode 15.1 and 16.0 that ICU 72 does not know, and their neighbours.
TEST(Unicode, ClassesArePinnedToVersion16) {
  EXPECT_EQ(General(U'\U0002EBF0'), kLetter);
  EXPECT_EQ(General(U'\U0002EE5D'), kLetter);
  EXPECT_EQ(General(U'\U0002EE5E'), 0);
  EXPECT_EQ(General(U'\u1C8A'), kLetter);
  EXPECT_EQ(General(U'\u1C8B'), 0);
  EXPECT_EQ(General(U'\u0897'), kMark);
  EXPECT_EQ(General(U'\U0001CCF0'), kNumber);
}

TEST(Nfc, ComposesReordersAndReplaces) {
  EXPECT_EQ(Nfc("plain text, na\u00EFve \u4E2D"), "plain text, na\u00EFve \u4E2D");
  EXPECT_EQ(Nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(Nfc("a\u0302\u0323"), "\u1EAD");         // reordered, then composed
  EXPECT_EQ(Nfc("\u212B \u2126"), "\u00C5 \u03A9");  // singletons
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093C");          // composition exclusion
  EXPECT_EQ(Nfc("\u1100\u1161\u11A8"), "\uAC01");    // Hangul
  EXPECT_EQ(Nfc("q\u0345\u0301"), "q\u0301\u0345");
}

/// `text` n times.
std::string Repeat(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// Long enough to take minutes where the marks are sorted by insertion.
TEST(Nfc, LongRunsOfMarksTakeNoSquareOfTime) {
  constexpr int kMarks = 200'000;
  const auto many = [](std::string_view text) { return Repeat(text, kMarks); };
  EXPECT_EQ(Nfc(fmt::format("q{}e\u0301", many("\u0345\u0301\u0323"))),
            fmt::format("q{}{}{}\u00E9", many("\u0323"), many("\u0301"), many("\u0345")));
  // Marks that are made of marks (U+0F73 of classes 129 and 130, U+0344 of 230 twice).
  EXPECT_EQ(Nfc(many("\u0344\u0F73")),
            fmt::format("{}{}{}", many("\u0F71"), many("\u0F72"), many("\u0308\u0301")));
}

TEST(Nfc, RunsOfEveryLengthAreSortedAlike) {
  for (const int n : {1, 2, 31, 32, 33, 63, 64, 65, 100}) {
    // The mark below composes first, then the first of those above; a starter ends the run.
    EXPECT_EQ(Nfc(fmt::format("a{}b\u0307\u0958", Repeat("\u0302\u0323", n))),
              fmt::format("\u1EAD{}{}\u1E03\u0915\u093C", Repeat("\u0323", n - 1),
                          Repeat("\u0302", n - 1)));
    // Starters that NFC replaces, and a character of a later Unicode, which keeps marks apart.
    const std::string apart = Repeat("\u0302\u1AC1\u0323", n);
    EXPECT_EQ(Nfc(Repeat("\u212B\u0323", n) + apart), Nfc(Repeat("A\u0323\u030A", n) + apart));
  }
}

TEST(Nfc, UnchangedTextIsNotCopied) {
  const std::string_view text = "na\u00EFve \u4E2D\u6587 \U0001F600";
  std::string storage;
  EXPECT_EQ(Unicode::Get().Nfc(text, storage).data(), text.data());
}

// U+11938 composes and U+1AC1 reorders since Unicode 13; neither does in Unicode 9.
TEST(Nfc, IsPinnedToVersion9) {
  EXPECT_EQ(Nfc("\U00011935\U00011930"), "\U00011935\U00011930");
  EXPECT_EQ(Nfc("a\u0345\u1AC1"), "a\u0345\u1AC1");
  EXPECT_EQ(Nfc("a\u0345\u1AC1e\u0301"), "a\u0345\u1AC1\u00E9");  // the rest still composes
}

}  // namespace
}  // namespace kv8
