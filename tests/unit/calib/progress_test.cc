#include "calib/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

class ProgressMeterTest : public testing::Test {
 protected:
  std::optional<std::string> At(int second, std::uint64_t done, std::uint64_t total = 1000) {
    return meter_.Update({"ranges", done, total}, ProgressMeter::Monotonic(seconds(second)),
                         ProgressMeter::WallClock(seconds(second)));
  }

  ProgressMeter meter_{std::chrono::milliseconds(1000)};
};

TEST_F(ProgressMeterTest, TellsShareRateAndEnd) {
  EXPECT_EQ(At(0, 0), std::nullopt);
  const auto line = At(10, 400);
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line,
              StartsWith("ranges: 40.0%, 400 of 1000 tokens, 40 tokens/s, 15 s left, done at "));
}

TEST_F(ProgressMeterTest, KeepsItsInterval) {
  At(0, 0);
  EXPECT_TRUE(At(1, 1).has_value());
  EXPECT_FALSE(At(1, 2).has_value());
  EXPECT_TRUE(At(2, 3).has_value());
}

TEST_F(ProgressMeterTest, AResumedRunCountsItsOwnWorkOnly) {
  At(0, 900);
  const auto line = At(10, 950);
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr(" 5 tokens/s, 10 s left"));
}

TEST_F(ProgressMeterTest, TheEndIsAlwaysTold) {
  At(0, 0);
  At(90, 999);
  const auto line = At(90, 1000);
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr("100.0%, 1000 of 1000 tokens"));
  EXPECT_THAT(*line, HasSubstr("1 min 30 s in all"));
}

TEST_F(ProgressMeterTest, NoRateWithoutTime) {
  const auto line = At(0, 1000);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(*line, "ranges: 100.0%, 1000 of 1000 tokens");
}

TEST_F(ProgressMeterTest, LongRunsTellHours) {
  At(0, 0, 1'000'000);
  const auto line = At(10, 1000, 1'000'000);
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr("2 h 46 min left"));
}

}  // namespace
}  // namespace kv8
