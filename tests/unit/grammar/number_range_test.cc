// Ranges of numbers against arithmetic.
#include "grammar/number_range.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "grammar/json_schema.h"
#include "grammar_text.h"

namespace kv8::test {
namespace {

TEST(NumberRange, IntegersAreThoseInBetween) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    std::optional<std::int64_t> low = static_cast<std::int64_t>(random() % 2400) - 1200;
    std::optional<std::int64_t> high = *low + static_cast<std::int64_t>(random() % 1500);
    if (i % 5 == 1) low.reset();
    if (i % 5 == 2) high.reset();
    if (!low && !high) continue;
    const auto program = CompileRegex(IntegersBetween(low, high));
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    Machine machine(*program);
    for (std::int64_t n = -3000; n <= 3000; ++n) {
      const bool inside = (!low || n >= *low) && (!high || n <= *high);
      ASSERT_EQ(Matches(machine, std::to_string(n)), inside) << n << IntegersBetween(low, high);
    }
    EXPECT_FALSE(Matches(machine, "-0"));
    EXPECT_FALSE(Matches(machine, "07"));
    EXPECT_FALSE(Matches(machine, ""));
  }
}

TEST(NumberRange, LargeIntegers) {
  const auto program = CompileRegex(IntegersBetween(-999'999'999'999'999, 1'000'000'000'000'000));
  ASSERT_TRUE(program.ok());
  Machine machine(*program);
  EXPECT_TRUE(Matches(machine, "1000000000000000"));
  EXPECT_FALSE(Matches(machine, "1000000000000001"));
  EXPECT_TRUE(Matches(machine, "-999999999999999"));
  EXPECT_FALSE(Matches(machine, "-1000000000000000"));
}

TEST(NumberRange, DecimalsAreThoseInBetween) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const int step = i % 3 == 0 ? 100 : i % 3 == 1 ? 10 : 1;  // hundredths
    const int from = (static_cast<int>(random() % 4000) - 2000) / step * step;
    const int to = from + static_cast<int>(random() % 2500) / step * step;
    std::optional<DecimalLimit> low = DecimalLimit::Of(from / 100.0, random() % 2 == 0);
    std::optional<DecimalLimit> high = DecimalLimit::Of(to / 100.0, random() % 2 == 0);
    if (i % 5 == 1) low.reset();
    if (i % 5 == 2) high.reset();
    const std::string pattern = DecimalsBetween(low, high);
    if (pattern.empty()) {
      EXPECT_EQ(from, to);
      continue;
    }
    const auto program = CompileRegex(pattern);
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    Machine machine(*program);
    for (int n = -5000; n <= 5000; n += n % 7 == 0 ? 1 : 2) {
      if (n == 0) continue;
      const int magnitude = std::abs(n);
      std::string text =
          fmt::format("{}{}.{:02}", n < 0 ? "-" : "", magnitude / 100, magnitude % 100);
      const bool inside = (!low || n > from || (low->included && n == from)) &&
                          (!high || n < to || (high->included && n == to));
      ASSERT_EQ(Matches(machine, text), inside) << text << ' ' << pattern;
      while (text.back() == '0') {
        text.pop_back();
        if (text.back() == '.') text.pop_back();
        ASSERT_EQ(Matches(machine, text), inside) << text << ' ' << pattern;
        if (text.find('.') == text.npos) break;
      }
    }
  }
}

TEST(NumberRange, Gram5_NoDecimalRoundsToALimitThatIsLeftOut) {
  // One more digit, and a double could not tell them apart.
  const auto program =
      CompileRegex(DecimalsBetween(DecimalLimit::Of(0.1, false), DecimalLimit::Of(1234567, false)));
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  Machine machine(*program);
  EXPECT_TRUE(Matches(machine, "0.10000000000001"));
  EXPECT_FALSE(Matches(machine, "0.1000000000000000000001"));
  EXPECT_FALSE(Matches(machine, "0.1"));
  EXPECT_TRUE(Matches(machine, "1234566.99999999"));
  EXPECT_FALSE(Matches(machine, "1234566.999999999999999999"));
  EXPECT_FALSE(DecimalLimit::Of(1.0 / 3, true));
  EXPECT_FALSE(DecimalLimit::Of(1e15, true));
  EXPECT_EQ(DecimalLimit::Of(-1e-7, true)->fraction, "0000001");
}

}  // namespace
}  // namespace kv8::test
