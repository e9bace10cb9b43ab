#include "base/utf8.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(FirstInvalidUtf8, AcceptsEveryLength) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("a\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80"),
            std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), std::nullopt);
}

struct Invalid {
  std::string_view text;
  std::size_t at;
};

class FirstInvalidUtf8Finds : public testing::TestWithParam<Invalid> {};

TEST_P(FirstInvalidUtf8Finds, TheFirstByte) {
  EXPECT_EQ(FirstInvalidUtf8(GetParam().text), GetParam().at);
}

INSTANTIATE_TEST_SUITE_P(All, FirstInvalidUtf8Finds,
                         testing::Values(Invalid{"ab\x80", 2},                // lone continuation
                                         Invalid{"\xC0\xAF", 0},              // overlong
                                         Invalid{"a\xE0\x9F\xBF", 1},         // overlong
                                         Invalid{"\xF0\x8F\xBF\xBF", 0},      // overlong
                                         Invalid{"\xC3\xA9\xED\xA0\x80", 2},  // surrogate
                                         Invalid{"\xF4\x90\x80\x80", 0},      // above U+10FFFF
                                         Invalid{"\xF5\x80\x80\x80", 0},
                                         Invalid{"abc\xE4\xB8", 3},  // cut off
                                         Invalid{"\xE4\xB8"
                                                 "a",
                                                 0},
                                         Invalid{"\xFF", 0}));

TEST(AppendUtf8, IsTheInverseOfReadUtf8) {
  for (const char32_t c :
       {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    AppendUtf8(c, text);
    EXPECT_EQ(FirstInvalidUtf8(text), std::nullopt);
    EXPECT_EQ(ReadUtf8(text, 0).code_point, c);
    EXPECT_EQ(ReadUtf8(text, 0).length, text.size());
  }
}

std::string Lossy(std::string_view bytes) {
  LossyUtf8 decoder;
  std::string out;
  decoder.Push(bytes, out);
  decoder.Finish(out);
  return out;
}

// The Unicode standard's own examples (section 3.9, tables 3-8 to 3-11).
TEST(LossyUtf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(Lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(Lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(LossyUtf8, KeepsAnUnfinishedCharacterBack) {
  LossyUtf8 decoder;
  std::string out;
  decoder.Push("a\xE4\xB8", out);
  EXPECT_EQ(out, "a");
  decoder.Push("\xAD", out);
  EXPECT_EQ(out, "a\xE4\xB8\xAD");
  decoder.Push("\xF0\x9F", out);
  decoder.Finish(out);
  EXPECT_EQ(out, "a\xE4\xB8\xAD\xEF\xBF\xBD");
  decoder.Finish(out);
  EXPECT_EQ(out, "a\xE4\xB8\xAD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kv8
