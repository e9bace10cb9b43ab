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
  for (int i = 0; i < 120; ++i) {
    std::optional<DecimalLimit> low =
        DecimalLimit{static_cast<std::int64_t>(random() % 40) - 20, random() % 2 == 0};
    std::optional<DecimalLimit> high =
        DecimalLimit{low->value + 1 + static_cast<std::int64_t>(random() % 25), random() % 2 == 0};
    if (i % 5 == 1) low.reset();
    if (i % 5 == 2) high.reset();
    if (!low && !high) continue;
    const auto program = CompileRegex(DecimalsBetween(low, high));
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    Machine machine(*program);
    for (int n = -5000; n <= 5000; n += 5) {  // hundredths
      const int magnitude = std::abs(n);
      std::string text = fmt::format("{}{}", n < 0 ? "-" : "", magnitude / 100);
      if (n % 200 == 0 || n % 100 != 0) text += fmt::format(".{:02}", magnitude % 100);
      const double value = n / 100.0;
      const auto above = [&](const DecimalLimit& limit) {
        return value > limit.value || (limit.included && value == limit.value);
      };
      const auto below = [&](const DecimalLimit& limit) {
        return value < limit.value || (limit.included && value == limit.value);
      };
      ASSERT_EQ(Matches(machine, text), (!low || above(*low)) && (!high || below(*high)))
          << text << ' ' << DecimalsBetween(low, high);
    }
  }
}

}  // namespace
}  // namespace kv8::test
