// Constraints at work in the engine: what comes out satisfies them, is the model's own choice among
// what they allow, and does not depend on speculation or on other requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "grammar/constraints.h"
#include "kv8/engine.h"
#include "schema_oracle.h"
#include "support/golden.h"
#include "support/make_engine.h"

namespace kv8::test {
namespace {

EngineOptions Options(int drafts, DraftSampling sampling = DraftSampling::kGreedy) {
  EngineOptions options;
  options.model = BundledModel();
  options.max_model_len = 192;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.threads = 1;
  options.speculative_tokens = drafts;
  options.draft_sampling = sampling;
  return options;
}

Constraints& BundledConstraints() {
  static Constraints constraints(Tokenizer::Load(BundledModel() / "tokenizer.json").value());
  return constraints;
}

Request MakeRequest(const Constraints::Constraint& constraint, std::int64_t max_tokens) {
  Request request;
  request.prompt = Golden("edge_65").Ints("input_ids");
  request.max_tokens = max_tokens;
  request.text = true;
  request.constraint = constraint;
  return request;
}

constexpr auto kSchema = R"({"type":"object","properties":{
    "name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},
    "tags":{"type":"array","items":{"enum":["red","green","blue"]},"maxItems":3}},
    "required":["name","age"]})";

TEST(ConstrainedEngine, WritesWhatTheSchemaAsksFor) {
  const auto engine = MakeEngine(Options(0));
  const OrderedJson schema = ParseOrderedJson(kSchema, "test").value();
  for (int seed = 0; seed < 4; ++seed) {
    Request request = MakeRequest(BundledConstraints().OfJsonSchema(kSchema).value(), 120);
    request.sampling.temperature = seed == 0 ? 0 : 1.5f;
    request.sampling.seed = static_cast<std::uint64_t>(seed);
    const auto done = engine->Generate(request);
    ASSERT_TRUE(done.ok()) << done.error().ToString();
    const Choice& choice = done->choices.front();
    EXPECT_EQ(choice.finish_reason, FinishReason::kStop) << choice.text;
    const auto value = ParseOrderedJson(choice.text, "generated");
    ASSERT_TRUE(value.ok()) << choice.text;
    EXPECT_TRUE(Satisfies(*value, schema, schema)) << choice.text;
  }
}

TEST(ConstrainedEngine, SpeculationChangesNothing) {
  const auto plain = MakeEngine(Options(0));
  const auto speculating = MakeEngine(Options(3));
  const Constraints::Constraint constraints[] = {
      BundledConstraints().OfJsonSchema(kSchema).value(),
      BundledConstraints().OfJsonObject().value(),
      BundledConstraints().OfRegex("(?:[A-Z][a-z]{1,8} ){2,6}\\.").value(),
      BundledConstraints().OfRegex(".*").value(),
  };
  std::int64_t accepted = 0;
  for (const auto& constraint : constraints) {
    for (const float temperature : {0.0f, 0.9f}) {
      Request request = MakeRequest(constraint, 60);
      request.sampling.temperature = temperature;
      request.sampling.seed = 5;
      const auto expected = plain->Generate(request);
      const auto got = speculating->Generate(request);
      ASSERT_TRUE(expected.ok() && got.ok());
      EXPECT_EQ(got->choices.front().token_ids, expected->choices.front().token_ids);
      EXPECT_EQ(got->choices.front().finish_reason, expected->choices.front().finish_reason);
      accepted += got->speculation.accepted;
    }
  }
  EXPECT_GT(accepted, 20) << "too few acceptances to show anything";
}

TEST(ConstrainedEngine, ChoicesAndOtherRequestsDoNotMeet) {
  const auto engine = MakeEngine(Options(2));
  const auto constraint = BundledConstraints().OfJsonSchema(kSchema).value();
  Request request = MakeRequest(constraint, 40);
  request.sampling.temperature = 1;
  request.choices = 3;
  const auto alone = engine->Generate(request);
  ASSERT_TRUE(alone.ok());
  std::optional<Completion> together;
  const auto keep = [&](Completion done) { together = std::move(done); };
  ASSERT_TRUE(engine->Submit(MakeRequest(nullptr, 50), {}, {}).ok());
  ASSERT_TRUE(engine->Submit(request, {}, keep).ok());
  ASSERT_TRUE(engine->Submit(MakeRequest(constraint, 50), {}, {}).ok());
  while (engine->Step()) {
  }
  ASSERT_TRUE(together.has_value());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(together->choices[i].token_ids, alone->choices[i].token_ids);
  }
}

/// How often each text comes out of many seeds.
std::map<std::string, double> TextCounts(Engine& engine, const Request& request, int seeds) {
  std::map<std::string, double> counts;
  for (int seed = 0; seed < seeds; ++seed) {
    Request one = request;
    one.sampling.seed = static_cast<std::uint64_t>(seed);
    const auto count = [&counts](const Completion& done) { counts[done.choices[0].text] += 1; };
    EXPECT_TRUE(engine.Submit(std::move(one), {}, count).ok());
  }
  while (engine.Step()) {
  }
  return counts;
}

TEST(ConstrainedEngine, ProbabilisticDraftsKeepTheMaskedDistribution) {
  constexpr int kSeeds = 300;
  // Each letter is one token whatever follows, as the others would not fit in.
  Request request = MakeRequest(BundledConstraints().OfRegex("[ae] [ae] [ae]").value(), 10);
  request.prompt = Golden("edge_3").Ints("input_ids");
  request.sampling.temperature = 3;
  const auto plain = TextCounts(*MakeEngine(Options(0)), request, kSeeds);
  const auto engine = MakeEngine(Options(2, DraftSampling::kProbabilistic));
  const auto drafted = TextCounts(*engine, request, kSeeds);
  double chi_square = 0;
  for (const char* text :
       {"a a a", "a a e", "a e a", "a e e", "e a a", "e a e", "e e a", "e e e"}) {
    const double a = plain.contains(text) ? plain.at(text) : 0;
    const double b = drafted.contains(text) ? drafted.at(text) : 0;
    if (a + b > 0) chi_square += (a - b) * (a - b) / (a + b);
  }
  EXPECT_LT(chi_square, 24.3) << "7 degrees of freedom, 0.1%";
  EXPECT_GT(plain.size(), 3u) << "too few texts to show anything";
  EXPECT_GT(engine->statistics().speculation.accepted, 50);
}

TEST(ConstrainedEngine, StopIdsComeOnlyWhereTheTextIsComplete) {
  const auto engine = MakeEngine(Options(0));
  Request request = MakeRequest(BundledConstraints().OfRegex("[0-9]{2,4}").value(), 20);
  request.sampling.temperature = 5;
  for (int seed = 0; seed < 20; ++seed) {
    request.sampling.seed = static_cast<std::uint64_t>(seed);
    // So likely that it comes as soon as it may.
    request.sampling.logit_bias = {{engine->model().stop_ids.front(), 100.0f}};
    const auto done = engine->Generate(request);
    ASSERT_TRUE(done.ok());
    const Choice& choice = done->choices.front();
    EXPECT_EQ(choice.finish_reason, FinishReason::kStop);
    EXPECT_GE(choice.text.size(), 2u) << choice.text;
    EXPECT_LE(choice.text.size(), 4u) << choice.text;
  }
  request.ignore_eos = true;
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->choices.front().text.size(), 4u) << "without stop ids only the end ends it";
}

TEST(ConstrainedEngine, LogprobsAreTheModelsOwn) {
  const auto engine = MakeEngine(Options(0));
  Request request = MakeRequest(BundledConstraints().OfRegex("[#$]+").value(), 1);
  request.logprobs = 5;
  const auto constrained = engine->Generate(request);
  request.constraint = nullptr;
  const auto free = engine->Generate(request);
  ASSERT_TRUE(constrained.ok() && free.ok());
  const auto& a = constrained->choices.front().logprobs.front().top;
  const auto& b = free->choices.front().logprobs.front().top;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token, b[i].token);
    EXPECT_EQ(a[i].logprob, b[i].logprob);
  }
}

/// Allows nothing, and is never complete.
class NothingConstraint final : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<NothingConstraint>();
  }
  void FillMask(std::span<std::uint64_t> mask) override { std::fill(mask.begin(), mask.end(), 0); }
  bool Accept(TokenId /*token*/) override { return false; }
  bool complete() const override { return false; }
  bool finished() const override { return false; }
};

TEST(ConstrainedEngine, WhereNothingIsAllowedTheRequestFails) {
  const auto engine = MakeEngine(Options(2));
  const auto done = engine->Generate(MakeRequest(std::make_shared<NothingConstraint>(), 5));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kMismatch);
  EXPECT_THAT(done.error().what, testing::HasSubstr("no token may follow"));
}

TEST(ConstrainedEngine, CountsHoldHoweverManyWaysLeadToThem) {
  EngineOptions options = Options(0);
  options.max_model_len = 320;
  const auto engine = MakeEngine(options);
  const auto x =
      Tokenizer::Load(BundledModel() / "tokenizer.json").value().Encode("x").value().front();
  constexpr auto kCounted = R"({"type":"string","pattern":"^(\\S{1,2} ?){1,80}$"})";
  Request request = MakeRequest(BundledConstraints().OfJsonSchema(kCounted).value(), 190);
  request.sampling.logit_bias = {{x, 100.0f}};
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok()) << done.error().ToString();
  const Choice& choice = done->choices.front();
  EXPECT_EQ(choice.text.substr(0, 161), '"' + std::string(160, 'x'));
  EXPECT_THAT(choice.text.substr(161), testing::AnyOf("\"", " \"")) << "no x is left";
  EXPECT_EQ(choice.finish_reason, FinishReason::kStop);
}

/// Allows everything, so many times, and then cannot follow.
class GivingUpConstraint final : public TokenConstraint {
 public:
  explicit GivingUpConstraint(int left) : left_(left) {}
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<GivingUpConstraint>(*this);
  }
  void FillMask(std::span<std::uint64_t> mask) override {
    std::fill(mask.begin(), mask.end(), ~std::uint64_t{0});
  }
  bool Accept(TokenId /*token*/) override {
    if (left_-- > 0) return true;
    failure_ = Error{Code::kResourceExhausted, "it gives up", "constraint", ""};
    return false;
  }
  const Error* failure() const override { return failure_ ? &*failure_ : nullptr; }
  bool complete() const override { return false; }
  bool finished() const override { return false; }

 private:
  int left_;
  std::optional<Error> failure_;
};

TEST(ConstrainedEngine, ATextThatCannotBeFollowedEndsItsRequestOnly) {
  for (const int drafts : {0, 2}) {
    const auto engine = MakeEngine(Options(drafts));
    std::optional<Completion> failed;
    std::optional<Completion> other;
    int tokens = 0;
    const auto count = [&](const TokenEvent& /*event*/) {
      ++tokens;
      return TokenReply::kGoOn;
    };
    const auto giving_up = std::make_shared<GivingUpConstraint>(3);
    ASSERT_TRUE(engine
                    ->Submit(MakeRequest(giving_up, 20), count,
                             [&](Completion done) { failed = std::move(done); })
                    .ok());
    ASSERT_TRUE(engine
                    ->Submit(MakeRequest(nullptr, 20), {},
                             [&](Completion done) { other = std::move(done); })
                    .ok());
    while (engine->Step()) {
    }
    ASSERT_TRUE(failed && failed->error);
    EXPECT_EQ(failed->error->what, "it gives up");
    EXPECT_EQ(failed->choices.front().finish_reason, FinishReason::kError);
    EXPECT_EQ(failed->choices.front().token_ids.size(), 3u) << "nothing past what was followed";
    EXPECT_EQ(tokens, 3);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->choices.front().token_ids.size(), 20u);
  }
}

/// Allows everything, but each mask waits for somebody.
class SlowConstraint final : public TokenConstraint {
 public:
  explicit SlowConstraint(const std::atomic<bool>& released) : released_(&released) {}
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<SlowConstraint>(*this);
  }
  bool Prepare(std::int64_t /*work*/) override { return *released_; }
  void FillMask(std::span<std::uint64_t> mask) override {
    EXPECT_TRUE(*released_) << "on the engine's thread";
    std::fill(mask.begin(), mask.end(), ~std::uint64_t{0});
  }
  bool Accept(TokenId /*token*/) override { return true; }
  bool complete() const override { return true; }
  bool finished() const override { return false; }

 private:
  const std::atomic<bool>* released_;
};

TEST(ConstrainedEngine, Gram3_OthersGoOnWhileAMaskIsFound) {
  const auto engine = MakeEngine(Options(2));
  std::atomic<bool> released = false;
  std::optional<Completion> slow;
  std::optional<Completion> other;
  ASSERT_TRUE(engine
                  ->Submit(MakeRequest(std::make_shared<SlowConstraint>(released), 10), {},
                           [&](Completion done) { slow = std::move(done); })
                  .ok());
  ASSERT_TRUE(
      engine
          ->Submit(MakeRequest(nullptr, 20), {}, [&](Completion done) { other = std::move(done); })
          .ok());
  while (!other) ASSERT_TRUE(engine->Step());
  EXPECT_EQ(other->choices.front().token_ids.size(), 20u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine->Step()) << "there is something to wait for";
  EXPECT_FALSE(slow);
  released = true;
  while (engine->Step()) {
  }
  ASSERT_TRUE(slow && !slow->error);
  const Request free = MakeRequest(nullptr, 10);
  EXPECT_EQ(slow->choices.front().token_ids,
            engine->Generate(free).value().choices.front().token_ids);
}

TEST(ConstrainedEngine, ARequestMayEndWhileItsMaskIsFound) {
  std::atomic<bool> released = false;
  {
    const auto engine = MakeEngine(Options(0));
    const auto id =
        engine->Submit(MakeRequest(std::make_shared<SlowConstraint>(released), 10), {}, {});
    ASSERT_TRUE(id.ok());
    engine->Step();
    engine->Cancel(*id);
    EXPECT_FALSE(engine->Step());
    EXPECT_EQ(engine->Generate(MakeRequest(nullptr, 5)).value().choices.size(), 1u);
  }  // and so may the engine
}

TEST(ConstrainedEngine, AConstraintThatAllowsNoTextIsRefused) {
  const auto engine = MakeEngine(Options(0));
  const auto done = engine->Generate(MakeRequest(BundledConstraints().OfRegex("").value(), 5));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kInvalidArgument);
  EXPECT_EQ(done.error().where, "constraint");
}

}  // namespace
}  // namespace kv8::test
