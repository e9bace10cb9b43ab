#include "speed/matrix.h"

#include <gtest/gtest.h>

#include "fake_target.h"

namespace kv8 {
namespace {

using test::FakeTarget;

TEST(Matrix, Bench3_DecodeIsTimedOnceAllHaveBegun) {
  FakeTarget target;
  target.starts = {1, 3};
  PromptSource prompts = PromptSource::Random(100, 1);
  const auto times = MeasureCell(target, prompts, {.context = 10, .sequences = 2, .output = 4}, 50);
  ASSERT_TRUE(times.ok()) << times.error().ToString();
  EXPECT_DOUBLE_EQ(times->prefill_tokens_per_second, 20.0 / 3);
  EXPECT_DOUBLE_EQ(times->first_token_seconds, 2);
  // Four tokens of each within two seconds; what the first had before does not count.
  EXPECT_DOUBLE_EQ(times->decode_tokens_per_second, 8.0 / 2);
  EXPECT_FALSE(times->acceptance);
}

TEST(Matrix, Bench1_APrefixHitIsAnError) {
  FakeTarget target;
  target.starts = {0};
  target.cached_tokens = 64;
  PromptSource prompts = PromptSource::Random(100, 1);
  const auto times = MeasureCell(target, prompts, {.context = 99, .sequences = 1, .output = 2}, 9);
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.error().code, Code::kMismatch);
  EXPECT_NE(times.error().what.find("64"), std::string::npos);
}

TEST(Matrix, Bench3_ARequestThatEndsBeforeTheLastBeginsIsAnError) {
  FakeTarget target;
  target.starts = {0, 9};
  PromptSource prompts = PromptSource::Random(100, 1);
  const auto times = MeasureCell(target, prompts, {.context = 5, .sequences = 2, .output = 4}, 6);
  ASSERT_FALSE(times.ok());
  EXPECT_NE(times.error().what.find("ended before"), std::string::npos);
}

TEST(Matrix, MostTokensLeaveRoomForEveryPassOfPrompts) {
  EXPECT_GE(MostTokens({.context = 4096, .sequences = 4, .output = 32}, 512, 0), 32 + 32);
  EXPECT_GE(MostTokens({.context = 64, .sequences = 1, .output = 32}, 512, 3), 4 * 32);
}

}  // namespace
}  // namespace kv8
