#include "calib/corpus_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CorpusDocument Parsed(std::string_view line) {
  auto document = ParseCorpusLine(line, "corpus.jsonl:7");
  EXPECT_TRUE(document.ok()) << document.error().ToString();
  return document.ok() ? std::move(*document) : CorpusDocument{};
}

TEST(CorpusLine, TextIsTakenAsItIs) {
  const CorpusDocument document =
      Parsed(R"({"id": 7, "category": "code", "text": " a\n\u00e9 <|im_end|>", "depth": null})");
  EXPECT_EQ(document.category, "code");
  EXPECT_EQ(document.text, " a\n\xC3\xA9 <|im_end|>");
  EXPECT_TRUE(document.token_ids.empty());
}

TEST(CorpusLine, TokenIdsReplaceText) {
  const CorpusDocument document = Parsed("{\"token_ids\": [0, 5, 2147483647]}\r");
  EXPECT_EQ(document.category, kUncategorized);
  EXPECT_THAT(document.token_ids, ElementsAre(0, 5, 2147483647));
}

struct BadLine {
  std::string name;
  std::string line;
  std::string what;
};

class BadCorpusLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadCorpusLine, IsRefusedByName) {
  const auto document = ParseCorpusLine(GetParam().line, "corpus.jsonl:7");
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().code, Code::kCorrupt);
  EXPECT_EQ(document.error().where, "corpus.jsonl:7");
  EXPECT_THAT(document.error().what, HasSubstr(GetParam().what));
  EXPECT_FALSE(document.error().remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadCorpusLine,
    testing::Values(
        BadLine{"NotJson", "text", "not valid JSON at byte"},
        BadLine{"Unfinished", R"({"text": "a)", "not valid JSON"},
        BadLine{"TwoObjects", R"({"text": "a"} {"text": "b"})", "not valid JSON"},
        BadLine{"Array", R"(["text"])", "not a JSON object"},
        BadLine{"String", R"("text")", "not a JSON object"},
        BadLine{"DuplicateKey", R"({"text": "a", "text": "b"})", R"(duplicate key "text")"},
        BadLine{"DuplicateInside", R"({"text": "a", "x": {"k": 1, "k": 2}})",
                R"(duplicate key "k")"},
        BadLine{"TooDeep", R"({"text": "a", "x": )" + std::string(1000, '[') + "}",
                "nested deeper"},
        BadLine{"InvalidUtf8", "{\"text\": \"\xFF\"}", "not valid UTF-8 at byte 10"},
        BadLine{"LoneSurrogate", R"({"text": "\ud800"})", "not valid JSON"},
        BadLine{"Nothing", R"({"id": "x"})", R"(neither "text" nor "token_ids")"},
        BadLine{"Both", R"({"text": "a", "token_ids": [1]})", R"(both "text" and "token_ids")"},
        BadLine{"TextNumber", R"({"text": 5})", R"("text" is not a string)"},
        BadLine{"TextNull", R"({"text": null})", R"("text" is not a string)"},
        BadLine{"TextEmpty", R"({"text": ""})", R"("text" is empty)"},
        BadLine{"IdsString", R"({"token_ids": "1"})", R"("token_ids" is not an array)"},
        BadLine{"IdsEmpty", R"({"token_ids": []})", R"("token_ids" is empty)"},
        BadLine{"IdNegative", R"({"token_ids": [3, -1]})", R"("token_ids" element 1)"},
        BadLine{"IdFraction", R"({"token_ids": [1.0]})", R"("token_ids" element 0)"},
        BadLine{"IdBool", R"({"token_ids": [true]})", R"("token_ids" element 0)"},
        BadLine{"IdHuge", R"({"token_ids": [2147483648]})", R"("token_ids" element 0)"},
        BadLine{"CategoryNumber", R"({"text": "a", "category": 3})",
                R"("category" is not a string)"},
        BadLine{"CategoryEmpty", R"({"text": "a", "category": ""})", R"("category" has 0 bytes)"},
        BadLine{"CategoryLong",
                R"({"text": "a", "category": ")" + std::string(kMaxCategoryBytes + 1, 'c') + "\"}",
                R"("category" has 257 bytes)"}),
    [](const auto& line) { return line.param.name; });

}  // namespace
}  // namespace kv8
