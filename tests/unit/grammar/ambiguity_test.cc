// Grammars that can read a text in very many ways: every way is followed, exactly, and what that
// may cost is bounded by an error, never by a wrong answer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "grammar_text.h"
#include "support/golden.h"

namespace kv8::test {
namespace {

std::shared_ptr<const TokenTrie> BundledTrie() {
  static const auto trie = std::make_shared<const TokenTrie>(
      TokenTrie::Of(Tokenizer::Load(BundledModel() / "tokenizer.json").value()));
  return trie;
}

TokenId IdOf(char byte) {
  TokenId id = 0;
  while (BundledTrie()->Bytes(id) != std::string_view(&byte, 1)) ++id;
  return id;
}

std::string Times(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

struct Counted {
  const char* pattern;
  std::string_view piece;
  std::size_t min;
  std::size_t max;
};

TEST(Ambiguity, Gram1_CountsAreExactHoweverManyWaysThereAre) {
  const Counted cases[] = {
      {"(\\S{1,2} ?){1,80}", "x", 1, 160},
      {"((.{1,20}){1,20}){1,20}", "x", 1, 8000},
      {"((.{1,9}a?){1,9}b?){1,9}", "x", 1, 729},
      {"((.{2,3}){4,5}){6,7}", "x", 48, 105},
      {"((.{2}){4,5}c?){6,7}", "xx", 24, 35},
      {"(x|.){300}", "x", 300, 300},
      {"(x?){0,5000}", "x", 0, 5000},
      {"((x?y?){0,90}z?){0,90}", "x", 0, 8100},
      {"(xx|xxx){5,9}", "x", 10, 27},
  };
  for (const auto& [pattern, piece, min, max] : cases) {
    const auto program = CompileRegex(pattern);
    ASSERT_TRUE(program.ok()) << pattern << program.error().ToString();
    Machine machine(*program);
    for (const std::size_t count : {min, (min + max) / 2, max}) {
      EXPECT_TRUE(Matches(machine, Times(piece, count))) << pattern << " " << count;
    }
    EXPECT_EQ(min > 0 && Matches(machine, Times(piece, min - 1)), false) << pattern;
    EXPECT_FALSE(Matches(machine, Times(piece, max + 1))) << pattern;
    EXPECT_FALSE(machine.spent()) << pattern;
  }
}

TEST(Ambiguity, FarBackConditionsAreExact) {
  const auto program = CompileRegex("(x|.)*x(x|.){700}");
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  std::mt19937 random(3);
  std::string text;
  for (int i = 0; i < 1500; ++i) text += "xy"[random() % 2];
  StateId state = machine.start();
  for (std::size_t i = 0; i < text.size(); ++i) {
    state = machine.Step(state, static_cast<std::uint8_t>(text[i]));
    ASSERT_EQ(machine.complete(state), i >= 700 && text[i - 700] == 'x') << i;
  }
}

TEST(Ambiguity, NestedChoicesTakeOneWayForEachPlace) {
  // Every level may be either branch: 2^60 ways, were they told apart.
  const auto program = CompileJsonSchema(ParseOrderedJson(
                                             R"({"anyOf":[{"type":"array","items":{"$ref":"#"}},
                   {"type":"array","items":{"$ref":"#"},"maxItems":3},{"type":"null"}]})",
                                             "test")
                                             .value());
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  EXPECT_TRUE(Matches(machine, fmt::format("{:[>40}null{:]>40}", "", "")));
  EXPECT_FALSE(Matches(machine, fmt::format("{:[>40}null{:]>41}", "", "")));
  EXPECT_FALSE(machine.spent());
  EXPECT_LT(machine.bytes(), std::size_t{1} << 20);
}

/// Follows random allowed tokens; each must be accepted, and every mask is what trying gives.
void CheckMasks(std::string_view pattern, int tokens, int every) {
  const auto program = CompileRegex(pattern);
  ASSERT_TRUE(program.ok()) << pattern;
  const auto trie = BundledTrie();
  const auto text = Matcher::Make(*program, trie).value()->Start();
  Machine oracle(*program);
  StateId state = oracle.start();
  std::mt19937 random(6);
  std::vector<std::uint64_t> mask(MaskWords(static_cast<std::int64_t>(trie->vocab())));
  for (int i = 0; i < tokens; ++i) {
    text->FillMask(mask);
    ASSERT_EQ(text->failure(), nullptr) << pattern;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < static_cast<TokenId>(trie->vocab()); ++id) {
      const auto at = static_cast<std::size_t>(id);
      const bool set = (mask[at / 64] >> (at % 64) & 1) != 0;
      if (set) allowed.push_back(id);
      if (i % every != 0 || trie->Bytes(id).empty()) continue;
      ASSERT_EQ(set, oracle.Run(state, trie->Bytes(id)) != kDeadState)
          << pattern << " token " << i << ": " << trie->Bytes(id);
    }
    if (allowed.empty()) return;
    const TokenId token = allowed[random() % allowed.size()];
    ASSERT_TRUE(text->Accept(token)) << pattern << " token " << i;
    state = oracle.Run(state, trie->Bytes(token));
    ASSERT_EQ(text->complete(), oracle.complete(state));
  }
}

TEST(Ambiguity, MasksAreWhatTryingEachTokenGives) {
  CheckMasks("(\\S{1,2} ?){1,80}", 60, 7);
  CheckMasks("((.{1,5}a?){1,9}b?){1,9}", 60, 17);
  CheckMasks(".*x.{40}", 40, 9);
  CheckMasks("(x|.)*x(x|.){4000}", 60, 31);
  CheckMasks("([a-z]{2,5} ){3,4}[0-9]{30,50}", 60, 1);
}

TEST(Ambiguity, HostileExpressionsCostLittle) {
  const char* const patterns[] = {".*x.{500}",
                                  "(x|.)*x(x|.){4000}",
                                  "(\\S{1,2} ?){1,80}",
                                  "((.{1,20}){1,20}){1,20}",
                                  "((.{1,9}a?){1,9}b?){1,9}",
                                  "(.|.|.|.|.|.|.|.)*x(.|.|.|.|.|.|.|.){200}"};
  for (const char* pattern : patterns) {
    // A tenth of what a text may cost, so that no machine's speed matters.
    const auto text = Matcher::Make(CompileRegex(pattern).value(), BundledTrie(),
                                    {.token_work = 20'000, .mask_work = 2'000'000})
                          .value()
                          ->Start();
    std::vector<std::uint64_t> mask(MaskWords(static_cast<std::int64_t>(BundledTrie()->vocab())));
    for (int i = 0; i < 150; ++i) {
      text->FillMask(mask);
      ASSERT_EQ(text->failure(), nullptr) << pattern << " at " << i;
      ASSERT_TRUE(text->Accept(IdOf('x'))) << pattern << " at " << i;
    }
  }
}

TEST(Ambiguity, Gram2_WhatCostsTooMuchIsAnErrorAndNeverAMask) {
  const auto vocab = static_cast<std::int64_t>(BundledTrie()->vocab());
  const std::vector<std::uint64_t> none(MaskWords(vocab));
  std::vector<std::uint64_t> mask(none.size());
  const Program program = CompileRegex("((.{1,9}a?){1,9}b?){1,9}").value();
  const auto poor = Matcher::Make(program, BundledTrie(), {.mask_work = 1000}).value()->Start();
  ASSERT_TRUE(poor->Accept(IdOf('x')));
  poor->FillMask(mask);
  ASSERT_NE(poor->failure(), nullptr);
  EXPECT_EQ(poor->failure()->code, Code::kUnsupported);
  EXPECT_EQ(mask, none);
  EXPECT_FALSE(poor->Accept(IdOf('x')));
  EXPECT_EQ(poor->Clone()->failure()->code, Code::kUnsupported);

  const auto slow = Matcher::Make(program, BundledTrie(), {.token_work = 20}).value()->Start();
  int followed = 0;
  while (followed < 700 && slow->Accept(IdOf('x'))) ++followed;
  EXPECT_LT(followed, 700);
  ASSERT_NE(slow->failure(), nullptr);
  EXPECT_FALSE(slow->Accept(IdOf('x')));

  const auto all = Matcher::Make(program, BundledTrie(), {.text_work = 0}).value()->Start();
  EXPECT_FALSE(all->Prepare(10)) << "too little, but there may be more";
  EXPECT_EQ(all->failure(), nullptr);
  EXPECT_TRUE(all->Prepare(Machine::kNoLimitOfWork));
  EXPECT_NE(all->failure(), nullptr) << "the sum of all masks";
}

TEST(Ambiguity, ForgettingAtEveryTokenKeepsThePlace) {
  const Program program = CompileRegex("(?:[ab]{1,300}c){2,300}").value();
  Machine machine(program);
  std::mt19937 random(1);
  StateId state = machine.start();
  const auto text = Matcher::Make(program, BundledTrie(), {.forget_bytes = 1}).value()->Start();
  for (int i = 0; i < 280; ++i) {
    const TokenId token = IdOf("ab"[random() % 2]);
    ASSERT_TRUE(text->Accept(token));
    state = machine.Run(state, BundledTrie()->Bytes(token));
  }
  EXPECT_EQ(text->complete(), machine.complete(state));
}

}  // namespace
}  // namespace kv8::test
