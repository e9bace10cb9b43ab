// Every field of a request is checked, and the error names it.
#include "engine/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace kv8::test {
namespace {

using testing::HasSubstr;

constexpr RequestLimits kLimits{.vocab = 100, .max_model_len = 64, .max_choices = 4};

Request Valid() {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 61;
  return request;
}

struct Defect {
  const char* where;
  std::function<void(Request&)> make;
};

const std::vector<Defect>& Defects() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<Defect> defects = {
      {"prompt", [](Request& r) { r.prompt.clear(); }},
      {"prompt", [](Request& r) { r.prompt[1] = 100; }},
      {"prompt", [](Request& r) { r.prompt[1] = -1; }},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }},
      {"stop_ids", [](Request& r) { r.stop_ids = {100}; }},
      {"stop", [](Request& r) { r.stop = {""}; }},
      {"temperature", [](Request& r) { r.sampling.temperature = -1; }},
      {"temperature", [](Request& r) { r.sampling.temperature = nan; }},
      {"top_k", [](Request& r) { r.sampling.top_k = -1; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 0; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 1.5f; }},
      {"min_p", [](Request& r) { r.sampling.min_p = -0.1f; }},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = 0; }},
      {"presence_penalty", [](Request& r) { r.sampling.presence_penalty = nan; }},
      {"frequency_penalty", [](Request& r) { r.sampling.frequency_penalty = 1e9f; }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{100, 1.0f}};
       }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{1, nan}};
       }},
      {"choices", [](Request& r) { r.choices = 0; }},
      {"choices", [](Request& r) { r.choices = 5; }},
      {"logprobs", [](Request& r) { r.logprobs = -1; }},
      {"prompt_logprobs", [](Request& r) { r.prompt_logprobs = 1000; }},
  };
  return defects;
}

TEST(RequestCheck, AcceptsWhatFits) {
  EXPECT_TRUE(CheckRequest(Valid(), kLimits).ok());
}

TEST(RequestCheck, BlamesTheLimitThatWasHit) {
  Request request = Valid();
  request.max_tokens = 62;
  RequestLimits limits = kLimits;
  limits.checkpoint_len = 64;
  EXPECT_THAT(CheckRequest(request, limits).error().remedy, HasSubstr("the checkpoint's limit"));
  limits.checkpoint_len = 65;
  EXPECT_THAT(CheckRequest(request, limits).error().remedy, HasSubstr("raise --max-model-len"));
}

TEST(RequestCheck, NamesWhatIsTooLongInTheWordsOfOpenAIsClients) {
  Request request = Valid();
  const auto refusal = [&] { return CheckRequest(request, kLimits).error(); };
  request.max_tokens = 62;
  EXPECT_EQ(refusal().code, Code::kTooLong);
  EXPECT_EQ(refusal().where, "max_tokens");
  EXPECT_EQ(refusal().what,
            "This model's maximum context length is 64 tokens. However, you requested 65 tokens (3 "
            "in the prompt, 62 in the output)");
  request.max_tokens = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal().what, HasSubstr("you requested 9223372036854775810 tokens"));
  request.prompt.assign(64, 1);
  request.max_tokens.reset();
  EXPECT_EQ(refusal().where, "prompt");
  EXPECT_EQ(refusal().code, Code::kTooLong);
}

TEST(RequestCheck, NamesTheFieldOfEveryDefect) {
  for (const Defect& defect : Defects()) {
    Request request = Valid();
    defect.make(request);
    const auto checked = CheckRequest(request, kLimits);
    ASSERT_FALSE(checked.ok()) << defect.where;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
    EXPECT_EQ(checked.error().where, defect.where);
    EXPECT_FALSE(checked.error().remedy.empty());
  }
}

}  // namespace
}  // namespace kv8::test
