// Masks over vocabularies: bit for bit what trying each token gives, for every place in a text.
#include "grammar/constraints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/token_masks.h"
#include "grammar_text.h"
#include "support/golden.h"

namespace kv8::test {
namespace {

// Pieces of JSON, words, parts of characters.
const char* const kPieces[] = {"{\"",
                               "\":",
                               "\": ",
                               "\",",
                               "\", \"",
                               "\"}",
                               "}}",
                               "]}",
                               "],",
                               "[[",
                               "[\"",
                               "\"]",
                               "},{",
                               "true",
                               "false",
                               "null",
                               "12",
                               "007",
                               "1.5",
                               "-1",
                               "e+3",
                               "abc",
                               "\"a\"",
                               "name",
                               "na",
                               "nam",
                               "\n  ",
                               "  ",
                               "\n    \"",
                               "{}",
                               "[]",
                               "\"\"",
                               "\\\"",
                               "\\",
                               "x\",\"",
                               "é",
                               "\xE2\x82",
                               "\xAC\"",
                               "\U0001F600",
                               "\\u00",
                               "abcabc",
                               "\",\"b\":",
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                               "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\",",
                               "{\"a\":\"cccccccccccccccccccccccccccccccccccccc"};

/// Every single byte, then the pieces, one of them twice, and a control token.
std::vector<std::string> SmallVocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), std::begin(kPieces), std::end(kPieces));
  tokens.emplace_back("abc");
  tokens.emplace_back("");
  return tokens;
}

const char* const kSchemas[] = {
    R"({"type":"object"})",
    R"({"type":"string","maxLength":30})",
    R"({"type":"string","minLength":40,"maxLength":1000})",
    R"({"type":"string","pattern":"^(ab?c){1,20}$"})",
    R"({"type":"object","properties":{"a":{"type":"string"},"name":{"type":"integer"},
        "b":{"type":"array","items":{"$ref":"#"},"maxItems":3}},"required":["b"],
        "additionalProperties":{"enum":["abc","abd","x\"y"]}})",
    R"({"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":
        {"type":"array","items":{"type":"string","maxLength":4}}},{"type":"number","minimum":7}]})",
};

std::vector<std::uint64_t> MaskByTrying(const TokenTrie& trie, Machine& machine, StateId state) {
  std::vector<std::uint64_t> mask(MaskWords(static_cast<std::int64_t>(trie.vocab())));
  for (std::size_t id = 0; id < trie.vocab(); ++id) {
    const std::string_view bytes = trie.Bytes(static_cast<TokenId>(id));
    if (bytes.empty() || machine.Run(state, bytes) == kDeadState) continue;
    mask[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  return mask;
}

TEST(TokenMasks, AreWhatTryingEachTokenGives) {
  const TokenTrie trie(SmallVocabulary());
  std::mt19937 random(4);
  for (const char* schema : kSchemas) {
    const auto program = CompileJsonSchema(ParseOrderedJson(schema, "test").value());
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    Machine machine(*program);
    Machine oracle(*program);
    TokenMasks masks(trie, machine);
    for (int text = 0; text < 20; ++text) {
      StateId state = machine.start();
      StateId same = oracle.start();
      for (int step = 0; step < 40 && !machine.finished(state); ++step) {
        const std::vector<std::uint64_t> mask = *masks.Find(state);
        ASSERT_EQ(mask, MaskByTrying(trie, oracle, same)) << schema;
        std::vector<TokenId> allowed;
        for (std::size_t id = 0; id < trie.vocab(); ++id) {
          if ((mask[id / 64] >> (id % 64) & 1) != 0) allowed.push_back(static_cast<TokenId>(id));
        }
        ASSERT_FALSE(allowed.empty());
        const std::string_view bytes = trie.Bytes(allowed[random() % allowed.size()]);
        state = machine.Run(state, bytes);
        same = oracle.Run(same, bytes);
      }
    }
  }
}

TEST(TokenTrie, HoldsEveryTokenOnceInOrder) {
  const std::vector<std::string> tokens = SmallVocabulary();
  const TokenTrie trie(tokens);
  std::size_t found = 0;
  std::string path;
  const auto nodes = trie.common().nodes();
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    path.resize(nodes[i].depth);
    path.back() = static_cast<char>(nodes[i].byte);
    EXPECT_GT(nodes[i].end, i);
    for (const TokenId id : trie.common().TokensAt(i)) {
      EXPECT_EQ(tokens[static_cast<std::size_t>(id)], path);
      ++found;
    }
  }
  for (const TokenId id : trie.long_tokens()) {
    EXPECT_GT(trie.Bytes(id).size(), TokenTrie::kCommonBytes);
    ++found;
  }
  EXPECT_EQ(found, tokens.size() - 1);
  EXPECT_EQ(nodes[0].end, nodes.size());
}

TEST(TokenTrie, LeavesControlTokensOut) {
  const auto tokenizer = Tokenizer::Load(BundledModel() / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  const TokenTrie trie = TokenTrie::Of(*tokenizer);
  EXPECT_EQ(trie.vocab(), tokenizer->vocab_size());
  EXPECT_EQ(trie.Bytes(*tokenizer->IdOf("<|im_end|>")), "");
  EXPECT_EQ(trie.Bytes(*tokenizer->IdOf("<think>")), "");
  EXPECT_EQ(trie.Bytes(tokenizer->Encode("{").value().front()), "{");
}

class ConstraintsTest : public testing::Test {
 protected:
  std::vector<std::uint64_t> MaskOf(TokenConstraint& constraint) {
    std::vector<std::uint64_t> mask(MaskWords(static_cast<std::int64_t>(SmallVocabulary().size())));
    constraint.FillMask(mask);
    return mask;
  }
  static bool Allows(const std::vector<std::uint64_t>& mask, TokenId id) {
    return (mask[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0;
  }

  Constraints constraints_{TokenTrie(SmallVocabulary())};
};

TEST_F(ConstraintsTest, FollowsATextToItsEnd) {
  const auto start = constraints_.OfRegex("ab?c*");
  ASSERT_TRUE(start.ok());
  const auto text = (*start)->Clone();
  EXPECT_FALSE(text->complete());
  EXPECT_TRUE(Allows(MaskOf(*text), 'a'));
  EXPECT_FALSE(Allows(MaskOf(*text), 'b'));
  EXPECT_FALSE(text->Accept('b'));
  EXPECT_TRUE(text->Accept('a'));
  EXPECT_TRUE(text->complete());
  EXPECT_FALSE(text->finished());
  const auto clone = text->Clone();
  EXPECT_TRUE(text->Accept('c'));
  EXPECT_FALSE(text->Accept('b'));
  EXPECT_TRUE(clone->Accept('b')) << "a clone goes its own way";
  EXPECT_FALSE((*start)->complete()) << "and so does the start";
}

TEST_F(ConstraintsTest, IsFinishedWhereNothingMayFollow) {
  const auto text = constraints_.OfJsonSchema(R"({"enum":["a"]})").value()->Clone();
  for (const char byte : std::string("\"a\"")) {
    EXPECT_FALSE(text->finished());
    ASSERT_TRUE(text->Accept(byte));
  }
  EXPECT_TRUE(text->complete());
  EXPECT_TRUE(text->finished());
  EXPECT_EQ(MaskOf(*text), std::vector<std::uint64_t>(MaskOf(*text).size()));
}

TEST_F(ConstraintsTest, TokensWithoutTextAreNeverAllowed) {
  const auto text = constraints_.OfRegex("[^a]*").value()->Clone();
  const auto control = static_cast<TokenId>(SmallVocabulary().size() - 1);
  EXPECT_FALSE(Allows(MaskOf(*text), control));
  EXPECT_FALSE(text->Accept(control));
  EXPECT_FALSE(text->Accept(-1));
  EXPECT_FALSE(text->Accept(1'000'000));
}

TEST_F(ConstraintsTest, BeginsAfterAMarker) {
  const auto marker = static_cast<TokenId>(SmallVocabulary().size() - 1);
  const auto inner = constraints_.OfRegex("ab").value();
  const auto text = constraints_.After(marker, inner)->Clone();
  const auto words = MaskOf(*text);
  for (TokenId id = 0; id <= marker; ++id) EXPECT_TRUE(Allows(words, id));
  EXPECT_FALSE(Allows(words, marker + 1));
  EXPECT_TRUE(text->Accept('z'));
  EXPECT_FALSE(text->complete());
  EXPECT_TRUE(text->Accept(marker));
  EXPECT_FALSE(text->Accept('z'));
  const auto clone = text->Clone();
  EXPECT_TRUE(clone->Accept('a'));
  EXPECT_TRUE(clone->Accept('b'));
  EXPECT_TRUE(clone->finished());
  EXPECT_FALSE(text->finished());
}

TEST_F(ConstraintsTest, ForgettingChangesNothing) {
  const auto trie = std::make_shared<const TokenTrie>(SmallVocabulary());
  const auto program = CompileRegex("(?:[ab]{1,300}c){2,300}");
  ASSERT_TRUE(program.ok());
  const auto matcher = Matcher::Make(*program, trie, {.forget_bytes = 4096}).value();
  const auto kept = matcher->Start();
  for (const char byte : std::string("abcb")) ASSERT_TRUE(kept->Accept(byte));
  const auto before = MaskOf(*kept);
  std::mt19937 random(8);
  const auto text = matcher->Start();  // each step is another state: memory runs over many times
  for (int i = 0; i < 250; ++i) ASSERT_TRUE(text->Accept("ab"[random() % 2]));
  EXPECT_EQ(MaskOf(*kept), before);
  EXPECT_FALSE(kept->complete());
  EXPECT_TRUE(kept->Accept('c'));
  EXPECT_TRUE(kept->complete());
  EXPECT_TRUE(text->Accept('c'));
  EXPECT_FALSE(text->complete());
}

TEST_F(ConstraintsTest, TooLargeASchemaIsRefused) {
  const auto result = constraints_.OfJsonSchema(std::string(300'000, ' '));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace kv8::test
