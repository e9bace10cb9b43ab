#include "server/openai/call_constraint.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kv8::openai {
namespace {

constexpr std::int64_t kVocab = 70;  // more than a word of the mask

/// Exactly these tokens.
class Sequence final : public TokenConstraint {
 public:
  explicit Sequence(std::vector<TokenId> tokens) : tokens_(std::move(tokens)) {}

  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<Sequence>(*this);
  }
  void FillMask(std::span<std::uint64_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    if (!finished()) mask[static_cast<std::size_t>(tokens_[at_]) / 64] |= 1ULL << tokens_[at_] % 64;
  }
  bool Accept(TokenId token) override {
    if (finished() || token != tokens_[at_]) return false;
    ++at_;
    return true;
  }
  bool complete() const override { return finished(); }
  bool finished() const override { return at_ == tokens_.size(); }

 private:
  std::vector<TokenId> tokens_;
  std::size_t at_ = 0;
};

std::vector<TokenId> Allowed(TokenConstraint& constraint) {
  std::vector<std::uint64_t> mask(MaskWords(kVocab), ~std::uint64_t{0});
  constraint.FillMask(mask);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 64); ++token) {
    if (mask[static_cast<std::size_t>(token) / 64] >> token % 64 & 1) tokens.push_back(token);
  }
  return tokens;
}

using Start = CallConstraint::Start;

CallConstraint Make(bool only_call, Start start = Start::kCall,
                    std::unique_ptr<TokenConstraint> instead = nullptr) {
  return CallConstraint(
      {.open = 3, .close = 65, .vocab = kVocab, .start = start, .only_call = only_call},
      std::make_shared<Sequence>(std::vector<TokenId>{10, 11}), std::move(instead));
}

using Tokens = std::vector<TokenId>;

TEST(CallConstraint, ForcesACall) {
  CallConstraint constraint = Make(/*only_call=*/false);
  for (const TokenId token : {3, 10, 11, 65}) {
    EXPECT_FALSE(constraint.complete());
    EXPECT_EQ(Allowed(constraint), Tokens{token});
    EXPECT_FALSE(constraint.Accept(20));
    EXPECT_TRUE(constraint.Accept(token));
  }
  EXPECT_TRUE(constraint.complete());
  EXPECT_FALSE(constraint.finished());
  EXPECT_EQ(Allowed(constraint).size(), static_cast<std::size_t>(kVocab));
  EXPECT_TRUE(constraint.Accept(69));
  EXPECT_FALSE(constraint.Accept(70));
}

TEST(CallConstraint, EveryCallFollowsIt) {
  CallConstraint constraint = Make(/*only_call=*/false, Start::kAnything);
  EXPECT_TRUE(constraint.complete());
  EXPECT_EQ(Allowed(constraint).size(), static_cast<std::size_t>(kVocab));
  for (int call = 0; call < 2; ++call) {
    for (const TokenId token : {65, 20, 3}) EXPECT_TRUE(constraint.Accept(token));
    EXPECT_FALSE(constraint.complete());
    for (const TokenId token : {10, 11, 65}) {
      EXPECT_EQ(Allowed(constraint), Tokens{token});
      EXPECT_TRUE(constraint.Accept(token));
    }
    EXPECT_TRUE(constraint.complete());
  }
}

/// Any tokens but the tags, and the end where one likes.
class Anything final : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> Clone() const override { return std::make_unique<Anything>(); }
  void FillMask(std::span<std::uint64_t> mask) override { mask[0] |= 1ULL << 20; }
  bool Accept(TokenId token) override { return token == 20; }
  bool complete() const override { return true; }
  bool finished() const override { return false; }
};

TEST(CallConstraint, ACallOfAnyTextEndsWhereItLikes) {
  CallConstraint constraint({.open = 3, .close = 65, .vocab = kVocab, .start = Start::kAnything},
                            std::make_shared<Anything>(), nullptr);
  EXPECT_TRUE(constraint.Accept(3));
  EXPECT_TRUE(constraint.Accept(20));
  EXPECT_TRUE(constraint.complete());
  EXPECT_EQ(Allowed(constraint), (Tokens{20, 65}));
  EXPECT_TRUE(constraint.Accept(65));
  EXPECT_EQ(Allowed(constraint).size(), static_cast<std::size_t>(kVocab));
}

TEST(CallConstraint, MayEndWithTheCall) {
  CallConstraint constraint = Make(/*only_call=*/true);
  for (const TokenId token : {3, 10, 11, 65}) EXPECT_TRUE(constraint.Accept(token));
  EXPECT_TRUE(constraint.complete());
  EXPECT_TRUE(constraint.finished());
  EXPECT_EQ(Allowed(constraint), Tokens{});
  EXPECT_FALSE(constraint.Accept(1));
}

TEST(CallConstraint, OrAnotherForm) {
  CallConstraint constraint =
      Make(false, Start::kCallOrForm, std::make_unique<Sequence>(Tokens{20, 21}));
  EXPECT_EQ(Allowed(constraint), (Tokens{3, 20}));
  const auto other = constraint.Clone();
  EXPECT_TRUE(constraint.Accept(20));
  EXPECT_EQ(Allowed(constraint), Tokens{21});
  EXPECT_TRUE(constraint.Accept(21));
  EXPECT_TRUE(constraint.finished());

  EXPECT_TRUE(other->Accept(3));  // the clone has not moved
  EXPECT_EQ(Allowed(*other), Tokens{10});
}

TEST(CallConstraint, ClonesKeepTheirPlace) {
  CallConstraint constraint = Make(false);
  EXPECT_TRUE(constraint.Accept(3));
  EXPECT_TRUE(constraint.Accept(10));
  const auto clone = constraint.Clone();
  EXPECT_EQ(Allowed(*clone), Tokens{11});
}

}  // namespace
}  // namespace kv8::openai
