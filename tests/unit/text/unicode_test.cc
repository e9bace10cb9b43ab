#include "text/unicode.h"

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
