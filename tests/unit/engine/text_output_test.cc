// Stop strings, wherever token boundaries fall.
#include "engine/text_output.h"

#include <gtest/gtest.h>

#include "support/golden.h"

namespace kv8::test {
namespace {

const Tokenizer& Bundled() {
  static const Tokenizer tokenizer = Tokenizer::Load(BundledModel() / "tokenizer.json").value();
  return tokenizer;
}

std::vector<TokenId> Encode(std::string_view text) {
  return Bundled().Encode(text).value();
}

/// Streams `text` token by token; checks that the pieces add up.
std::string Stream(TextOutput& output, const std::string& text) {
  std::string streamed;
  for (const TokenId token : Encode(text)) streamed += output.Push(token);
  streamed += output.Finish();
  EXPECT_EQ(streamed, output.text());
  return streamed;
}

TEST(TextOutput, WithoutStopsIsTheText) {
  TextOutput output(Bundled(), {});
  EXPECT_EQ(Stream(output, "Grüße, 世界! 🙂"), "Grüße, 世界! 🙂");
  EXPECT_EQ(output.stop(), nullptr);
}

TEST(TextOutput, EndsBeforeTheFirstStop) {
  TextOutput output(Bundled(), {"zebra", "brown fox", "fox"});
  EXPECT_EQ(Stream(output, "The quick brown fox jumps"), "The quick ");
  ASSERT_NE(output.stop(), nullptr);
  EXPECT_EQ(*output.stop(), "brown fox");
}

TEST(TextOutput, GivesBackWhatOnlyLookedLikeAStop) {
  TextOutput output(Bundled(), {"brown foxes"});
  EXPECT_EQ(Stream(output, "The quick brown fox"), "The quick brown fox");
}

TEST(TextOutput, HoldsBackUntilDecided) {
  TextOutput output(Bundled(), {"ab!"});
  std::string text;
  for (const char* piece : {"x", "a", "b"}) {
    for (const TokenId token : Encode(piece)) text += output.Push(token);
  }
  EXPECT_EQ(text, "x");
}

}  // namespace
}  // namespace kv8::test
