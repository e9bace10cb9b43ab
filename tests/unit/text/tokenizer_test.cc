#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/json.h"

namespace kv8 {
namespace {

using Ids = std::vector<TokenId>;

const std::filesystem::path kRoot = KV8_SOURCE_DIR;

static_assert(!std::is_copy_constructible_v<Tokenizer>);

const Tokenizer& Bundled() {
  static const Tokenizer tokenizer =
      Tokenizer::Load(kRoot / "models/tiny-qwen4exp/tokenizer.json").value();
  return tokenizer;
}

Ids Encode(std::string_view text) {
  return Bundled().Encode(text).value();
}

TEST(Tokenizer, GoldenCasesAreExact) {
  const Json cases = ReadJsonFile(kRoot / "tests/golden/tokenizer_cases.json", 1 << 20).value();
  ASSERT_GT(cases.size(), 40u);
  for (const Json& item : cases) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ(Encode(text), item["ids"].get<Ids>()) << text;
  }
}

TEST(Tokenizer, EncodeThenDecodeIsTheSameText) {
  for (const std::string_view text :
       {"", "a", " \r\n\t ", "It's 12:30; caf\u00E9 \u4E2D\u6587 \U0001F600",
        "<|im_start|>x<think>", "\x01\x02\x7F"}) {
    EXPECT_EQ(Bundled().Decode(Encode(text)).value(), text);
  }
  EXPECT_EQ(Bundled().Decode(Encode("e\u0301")).value(), "\u00E9");  // NFC
}

TEST(Tokenizer, EveryTokenDecodesToItsBytes) {
  EXPECT_EQ(Bundled().vocab_size(), 6144u);
  EXPECT_EQ(Bundled().Spelling(Encode(" the")[0]), "\u0120the");
  EXPECT_EQ(Bundled().Bytes(Encode(" the")[0]), " the");
}

TEST(Tokenizer, TokensCountOnlyWhereTheirAuthorMayWriteThem) {
  const auto encode = [](std::initializer_list<std::pair<std::string_view, Author>> parts) {
    MarkedText text;
    for (const auto& [part, author] : parts) text.Append(part, author);
    const Ids ids = Bundled().Encode(text).value();
    EXPECT_EQ(Bundled().Decode(ids).value(), text.text());
    return ids;
  };
  const auto has = [](const Ids& ids, TokenId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  constexpr TokenId kImEnd = 2;  // a control token
  constexpr TokenId kThink = 7;  // a marker
  EXPECT_EQ(encode({{"<|im_end|><think>", Author::kTemplate}}), (Ids{kImEnd, kThink}));
  const Ids assistant = encode({{"<|im_end|><think>", Author::kAssistant}});
  EXPECT_FALSE(has(assistant, kImEnd));
  EXPECT_TRUE(has(assistant, kThink));
  const Ids other = encode({{"<|im_end|><think>", Author::kOther}});
  EXPECT_FALSE(has(other, kImEnd));
  EXPECT_FALSE(has(other, kThink));
  // A token that two wrote is that of the one who is trusted less.
  EXPECT_FALSE(has(encode({{"<|im_", Author::kTemplate}, {"end|>", Author::kOther}}), kImEnd));
  EXPECT_FALSE(has(encode({{"<|im_", Author::kOther}, {"end|>", Author::kTemplate}}), kImEnd));
  EXPECT_TRUE(has(encode({{"<th", Author::kTemplate}, {"ink>", Author::kAssistant}}), kThink));
  // Without added tokens the authors make no difference.
  EXPECT_EQ(encode({{"It's ", Author::kTemplate}, {"12:30", Author::kOther}}),
            Encode("It's 12:30"));
}

TEST(Tokenizer, StopsWhereThereAreCertainlyTooMany) {
  const auto count = [](const std::string& text, std::size_t most) {
    return Bundled().Encode(text, most).value().size();
  };
  const std::string words = [] {
    std::string out;
    for (int i = 0; i < 1000; ++i) out += " word and <think> thought";
    return out;
  }();
  const std::size_t all = Encode(words).size();
  EXPECT_EQ(Bundled().Encode(words, all).value(), Encode(words));
  EXPECT_EQ(count(words, all + 1), all);
  EXPECT_GT(count(words, all - 1), all - 1);
  EXPECT_GT(count(words, 10), 10u);
  EXPECT_LT(count(words, 10), 100u);
  const std::string piece(100000, 'a');  // one piece, however long
  const std::size_t of_piece = Encode(piece).size();
  EXPECT_EQ(count(piece, of_piece), of_piece);
  EXPECT_GT(count(piece, of_piece - 1), of_piece - 1);
  EXPECT_EQ(count("", 0), 0u);
  EXPECT_GT(count("a", 0), 0u);
}

TEST(Tokenizer, AddedTokensAreFoundAnywhere) {
  EXPECT_EQ(Encode("<|im_start|>"), (Ids{1}));
  EXPECT_EQ(Encode("<|im_end|><|im_end|>"), (Ids{2, 2}));
  const TokenId a = Encode("a")[0];
  const TokenId less = Encode("<")[0];
  EXPECT_EQ(Encode("a<think>a"), (Ids{a, 7, a}));
  EXPECT_EQ(Encode("<<think>"), (Ids{less, 7}));
  EXPECT_THAT(Encode("<thin"), testing::Not(testing::Contains(7)));
}

TEST(Tokenizer, SpecialTokens) {
  EXPECT_EQ(Bundled().IdOf("<|endoftext|>"), 0);
  EXPECT_EQ(Bundled().IdOf("</think>"), 8);
  EXPECT_EQ(Bundled().IdOf("<|im_"), std::nullopt);
  EXPECT_EQ(Bundled().IdOf("<|im_end|>x"), std::nullopt);
  EXPECT_EQ(Bundled().IdOf("the"), std::nullopt);
  EXPECT_EQ(Bundled().IdOf(""), std::nullopt);
  EXPECT_TRUE(Bundled().IsSpecial(0));
  EXPECT_FALSE(Bundled().IsSpecial(7));  // <think> is text
  EXPECT_FALSE(Bundled().IsSpecial(500));
}

TEST(Tokenizer, InvalidUtf8IsRefusedWithItsOffset) {
  const auto ids = Bundled().Encode("abc\xFF");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
  EXPECT_EQ(ids.error().what, "not UTF-8 at byte 3");
}

TEST(Tokenizer, TextAboveTheLimitIsRefused) {
  const auto ids = Bundled().Encode(std::string(kMaxTextBytes + 1, 'x'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, Code::kResourceExhausted);
}

TEST(Tokenizer, DecodeRefusesIdsOutsideOfTheVocabulary) {
  const auto text = Bundled().Decode(Ids{1, 6144});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Code::kInvalidArgument);
  EXPECT_EQ(text.error().what, "6144 is not a token; ids go from 0 to 6143");
  EXPECT_FALSE(Bundled().Decode(Ids{-1}).ok());
}

TEST(Tokenizer, ThreadsShareOneInstance) {
  const std::string text = "Many threads, one tokenizer: e\u0301 \u4E2D\u6587 <think> 12";
  const Ids expected = Encode(text);
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) count += Encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Tokenizer, LoadNamesAMissingFile) {
  const auto tokenizer = Tokenizer::Load("no/such/tokenizer.json");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, Code::kNotFound);
  EXPECT_NE(tokenizer.error().where.find("no/such/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace kv8
