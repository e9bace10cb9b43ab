#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "text/tokenizer.h"

namespace kv8 {
namespace {

const Tokenizer& BundledTokenizer() {
  static const Tokenizer tokenizer =
      Tokenizer::Load(std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp/tokenizer.json")
          .value();
  return tokenizer;
}

/// All that a decoder returns for `ids`; checks that every part is whole characters.
std::string Stream(const std::vector<TokenId>& ids, bool skip_special_tokens) {
  StreamDecoder decoder(BundledTokenizer(), skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) {
    const auto part = decoder.Push(id);
    EXPECT_TRUE(part.ok());
    EXPECT_EQ(FirstInvalidUtf8(*part), std::nullopt);
    text += *part;
  }
  return text + decoder.Finish();
}

TEST(StreamDecoder, EmitsACharacterWithItsLastToken) {
  const auto ids = BundledTokenizer().Encode("\U0001F9EA").value();
  ASSERT_GT(ids.size(), 1u) << "the test needs a character of several tokens";
  StreamDecoder decoder(BundledTokenizer());
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(*decoder.Push(ids[i]), "");
  EXPECT_EQ(*decoder.Push(ids.back()), "\U0001F9EA");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, FinishReplacesAnUnfinishedCharacter) {
  auto ids = BundledTokenizer().Encode("\U0001F9EA").value();
  ids.pop_back();
  EXPECT_EQ(Stream(ids, false), "\uFFFD");
}

TEST(StreamDecoder, RandomTokensStreamToWhatDecodeReturns) {
  std::mt19937 rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(rng() % 12);
    // Half of the tokens from the single bytes, where characters get broken.
    for (TokenId& id : ids) {
      id = static_cast<TokenId>(rng() % 2 ? rng() % BundledTokenizer().vocab_size() : rng() % 300);
    }
    for (const bool skip : {false, true}) {
      EXPECT_EQ(Stream(ids, skip), BundledTokenizer().Decode(ids, skip).value());
    }
  }
}

TEST(StreamDecoder, EverySplitOfATextStreamsToTheText) {
  const std::string text = "na\u00EFve \u4E2D\u6587 \U0001F468\u200D\U0001F469 <|im_end|>\n\u0E01";
  const auto ids = BundledTokenizer().Encode(text).value();
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    StreamDecoder decoder(BundledTokenizer());
    std::string head;
    for (std::size_t i = 0; i < cut; ++i) head += *decoder.Push(ids[i]);
    EXPECT_TRUE(text.starts_with(head)) << head;
    for (std::size_t i = cut; i < ids.size(); ++i) head += *decoder.Push(ids[i]);
    EXPECT_EQ(head + decoder.Finish(), text);
  }
}

TEST(StreamDecoder, SkipsSpecialTokensOnly) {
  const auto ids = BundledTokenizer().Encode("<|im_start|><think>a</think><|im_end|>").value();
  EXPECT_EQ(Stream(ids, false), "<|im_start|><think>a</think><|im_end|>");
  EXPECT_EQ(Stream(ids, true), "<think>a</think>");
}

TEST(StreamDecoder, RefusesUnknownIdsAndGoesOn) {
  StreamDecoder decoder(BundledTokenizer());
  for (const TokenId id : {-1, static_cast<TokenId>(BundledTokenizer().vocab_size()), 2147483647}) {
    const auto part = decoder.Push(id);
    ASSERT_FALSE(part.ok());
    EXPECT_EQ(part.error().code, Code::kInvalidArgument);
    EXPECT_NE(part.error().what.find(std::to_string(id)), std::string::npos);
  }
  EXPECT_TRUE(decoder.Push(0).ok());
}

}  // namespace
}  // namespace kv8
