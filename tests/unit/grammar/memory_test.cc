// Memory that runs out while a mask is found or a text is followed: whoever comes next finds the
// grammar as it was.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ordered_json.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "support/poor_memory.h"

namespace kv8::test {
namespace {

constexpr std::size_t kVocab = 130;

/// All bytes below 128 as tokens, and two longer ones.
std::shared_ptr<const TokenTrie> Bytes() {
  std::vector<std::string> tokens;
  for (char c = 0; tokens.size() < 128; ++c) tokens.emplace_back(1, c);
  tokens.insert(tokens.end(), {"\"a\"", "1,\n"});
  return std::make_shared<const TokenTrie>(std::move(tokens));
}

std::shared_ptr<Matcher> NewMatcher() {
  Program program = CompileJsonSchema(OrderedJson::parse(R"({"properties":{
      "a":{"type":"array","items":{"type":"integer","multipleOf":7},"maxItems":4},
      "b":{"type":"string","pattern":"^(x|.)*x(x|.){3}$"}},"required":["a","b"]})"))
                        .value();
  return Matcher::Make(std::move(program), Bytes()).value();
}

std::vector<std::uint64_t> MaskOf(TokenConstraint& place) {
  std::vector<std::uint64_t> mask(MaskWords(kVocab));
  place.FillMask(mask);
  return mask;
}

const std::string kText = "{\"a\":[7,\n 14],\"b\":\"abxabc\"}";

/// A text up to its byte `end`.
std::unique_ptr<TokenConstraint> PlaceAt(Matcher& matcher, std::size_t end) {
  std::unique_ptr<TokenConstraint> place = matcher.Start();
  for (std::size_t i = 0; i < end; ++i) {
    EXPECT_TRUE(place->Accept(static_cast<TokenId>(kText[i])));
  }
  return place;
}

/// Both have the same masks up to the end of the text.
void ExpectSame(TokenConstraint& place, TokenConstraint& right, std::size_t at) {
  for (; at < kText.size(); ++at) {
    ASSERT_EQ(MaskOf(place), MaskOf(right)) << at;
    ASSERT_TRUE(place.Accept(static_cast<TokenId>(kText[at])));
    ASSERT_TRUE(right.Accept(static_cast<TokenId>(kText[at])));
  }
  EXPECT_TRUE(place.complete());
  EXPECT_EQ(place.failure(), nullptr);
}

TEST(GrammarMemory, Gram8_AMaskThatFoundNoneLeavesTheGrammarAsItWas) {
  const std::shared_ptr<Matcher> right = NewMatcher();
  int failures = 0;
  for (const std::size_t at : {0u, 6u, 10u, 22u}) {
    std::vector<std::uint64_t> mask(MaskWords(kVocab));
    for (std::int64_t n = 0;; n += 1 + n / 5) {
      const std::shared_ptr<Matcher> poor = NewMatcher();
      const auto place = PlaceAt(*poor, at);
      const auto other = PlaceAt(*poor, 3);
      if (!RunsOutOfMemory(n, [&] { place->FillMask(mask); })) break;
      ++failures;
      ExpectSame(*place, *PlaceAt(*right, at), at);
      ExpectSame(*other, *PlaceAt(*right, 3), 3);
    }
  }
  EXPECT_GT(failures, 50);
}

TEST(GrammarMemory, Gram8_ATokenThatFoundNoneLeavesTheGrammarAsItWas) {
  const std::shared_ptr<Matcher> right = NewMatcher();
  int failures = 0;
  for (std::size_t at = 0; at < kText.size(); at += 2) {
    for (std::int64_t n = 0;; ++n) {
      const std::shared_ptr<Matcher> poor = NewMatcher();
      const auto place = PlaceAt(*poor, at);
      const auto other = PlaceAt(*poor, at);
      const auto accept = [&] { place->Accept(static_cast<TokenId>(kText[at])); };
      if (!RunsOutOfMemory(n, accept)) break;
      ++failures;
      ExpectSame(*other, *PlaceAt(*right, at), at);
      ExpectSame(*place, *PlaceAt(*right, at), at);
    }
  }
  EXPECT_GT(failures, 100);
}

}  // namespace
}  // namespace kv8::test
