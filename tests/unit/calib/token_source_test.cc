#include "calib/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kVocab = 6144;

const Tokenizer& BundledTokenizer() {
  static const Result<Tokenizer> tokenizer =
      Tokenizer::Load(KV8_SOURCE_DIR "/models/tiny-qwen4exp/tokenizer.json");
  EXPECT_TRUE(tokenizer.ok());
  return *tokenizer;
}

class TokenSourceTest : public testing::Test {
 protected:
  std::vector<CorpusFile> Corpus(std::string_view content) {
    test::WriteFile(dir_ / "c.jsonl", content);
    auto file = IdentifyCorpusFile(dir_ / "c.jsonl");
    EXPECT_TRUE(file.ok());
    return {*file};
  }
  TokenSource Source(std::string_view content, const TokenLimits& limits) {
    return TokenSource(Corpus(content), BundledTokenizer(), kVocab, limits);
  }
  std::string Line(int number) const {
    return (dir_ / "c.jsonl").string() + ":" + std::to_string(number);
  }

  TempDir dir_;
};

constexpr std::string_view kThreeDocuments =
    "{\"token_ids\": [1, 2, 3]}\n{\"token_ids\": [4, 5]}\n{\"token_ids\": [6]}\n";

std::vector<std::vector<TokenId>> AllIds(TokenSource& source) {
  std::vector<std::vector<TokenId>> ids;
  for (;;) {
    auto document = source.Next();
    EXPECT_TRUE(document.ok()) << document.error().ToString();
    if (!document.ok() || !document->has_value()) return ids;
    ids.push_back((*document)->ids);
  }
}

TEST_F(TokenSourceTest, TextGetsNoSpecialTokens) {
  TokenSource source = Source("{\"text\": \"hello <|im_end|>\"}", {.document_tokens = 100});
  const auto document = source.Next();
  ASSERT_TRUE(document.ok());
  EXPECT_EQ((*document)->ids, *BundledTokenizer().Encode("hello <|im_end|>"));
  EXPECT_EQ((*document)->where, Line(1));
}

TEST_F(TokenSourceTest, WithoutLimitsNothingIsLeftOut) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 3});
  EXPECT_THAT(AllIds(source), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5), ElementsAre(6)));
  EXPECT_EQ(source.position().documents, 3u);
  EXPECT_EQ(source.position().tokens, 6u);
  EXPECT_FALSE(source.left_out());
}

TEST_F(TokenSourceTest, TheTotalCutsTheLastDocument) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 3, .total_tokens = 4});
  EXPECT_THAT(AllIds(source), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4)));
  EXPECT_TRUE(source.left_out());
}

TEST_F(TokenSourceTest, ATotalBetweenDocumentsLeavesTheRestOut) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 3, .total_tokens = 5});
  EXPECT_THAT(AllIds(source), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5)));
  EXPECT_TRUE(source.left_out());
}

TEST_F(TokenSourceTest, ATotalEqualToTheCorpusLeavesNothingOut) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 3, .total_tokens = 6});
  EXPECT_EQ(AllIds(source).size(), 3u);
  EXPECT_FALSE(source.left_out());
}

TEST_F(TokenSourceTest, LongDocumentsAreRefused) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 2});
  const auto document = source.Next();
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().code, Code::kResourceExhausted);
  EXPECT_EQ(document.error().where, Line(1));
  EXPECT_THAT(document.error().what, HasSubstr("3 tokens; the model takes 2"));
  EXPECT_THAT(document.error().remedy, HasSubstr("--truncate"));
}

TEST_F(TokenSourceTest, LongDocumentsAreCutOnRequest) {
  TokenSource source = Source(kThreeDocuments, {.document_tokens = 2, .truncate = true});
  EXPECT_THAT(AllIds(source), ElementsAre(ElementsAre(1, 2), ElementsAre(4, 5), ElementsAre(6)));
  EXPECT_TRUE(source.left_out());
}

TEST_F(TokenSourceTest, IdsOutsideOfTheVocabularyAreRefused) {
  TokenSource source =
      Source("{\"token_ids\": [0, 6143]}\n{\"token_ids\": [6144]}", {.document_tokens = 100});
  ASSERT_TRUE(source.Next().ok());
  const auto document = source.Next();
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().code, Code::kInvalidArgument);
  EXPECT_EQ(document.error().where, Line(2));
  EXPECT_THAT(document.error().what, HasSubstr("6144"));
}

TEST_F(TokenSourceTest, GoesOnWithTheTotalFromAPosition) {
  const TokenLimits limits = {.document_tokens = 3, .total_tokens = 4};
  const auto files = Corpus(kThreeDocuments);
  TokenSource first(files, BundledTokenizer(), kVocab, limits);
  ASSERT_TRUE(first.Next().ok());
  TokenSource second(files, BundledTokenizer(), kVocab, limits, first.position());
  EXPECT_THAT(AllIds(second), ElementsAre(ElementsAre(4)));
  EXPECT_EQ(second.position().documents, 2u);
}

TEST_F(TokenSourceTest, AScanFindsALateError) {
  const auto totals =
      ScanCorpus(Source(std::string(kThreeDocuments) + "{}\n", {.document_tokens = 3}));
  ASSERT_FALSE(totals.ok());
  EXPECT_EQ(totals.error().where, Line(4));
}

TEST_F(TokenSourceTest, AScanCounts) {
  const auto totals = ScanCorpus(Source(kThreeDocuments, {.document_tokens = 3}));
  ASSERT_TRUE(totals.ok());
  EXPECT_EQ(totals->documents, 3u);
  EXPECT_EQ(totals->tokens, 6u);
  EXPECT_FALSE(totals->left_out);
}

}  // namespace
}  // namespace kv8
