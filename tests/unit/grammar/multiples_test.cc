// Multiples of a number: exactly those between the limits, in every way they may be written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "grammar/json_schema.h"
#include "grammar_text.h"

namespace kv8::test {
namespace {

/// The grammar of a schema.
class SchemaGrammar {
 public:
  explicit SchemaGrammar(std::string_view schema)
      : program_(CompileJsonSchema(ParseOrderedJson(schema, "test").value()).value()),
        machine_(program_) {}

  bool Has(std::string_view text) { return Matches(machine_, text); }
  std::size_t size() const { return program_.code.size(); }

 private:
  Program program_;
  Machine machine_;
};

Error ErrorOf(std::string_view schema) {
  const auto program = CompileJsonSchema(ParseOrderedJson(schema, "test").value());
  return program.ok() ? Error{} : program.error();
}

TEST(Multiples, Gram6_IntegersAreThoseThatTheMultipleDivides) {
  for (const int step : {1, 2, 3, 4, 5, 7, 10, 12, 15, 25, 60, 97, 100, 250, 256, 1000, 1024}) {
    for (const auto& [low, high] : {std::pair{-1234, 2345}, {-99, -1}, {0, 10}, {7, 1000}}) {
      const std::string limits =
          fmt::format(R"("type":"integer","multipleOf":{},"minimum":{},"exclusiveMaximum":{})",
                      step, low, high + 1);
      const int nearest = low <= 0 && high >= 0 ? 0 : std::min(std::abs(low), std::abs(high));
      const int furthest = std::max(std::abs(low), std::abs(high));
      if (nearest > 0 && (nearest + step - 1) / step * step > furthest) continue;  // no text at all
      SchemaGrammar grammar("{" + limits + "}");
      for (int value = -2500; value <= 2500; ++value) {
        const bool fits = low <= value && value <= high && value % step == 0;
        ASSERT_EQ(grammar.Has(fmt::format("{}", value)), fits) << limits << " " << value;
      }
      EXPECT_FALSE(grammar.Has("-0"));
      EXPECT_FALSE(grammar.Has("00"));
      EXPECT_FALSE(grammar.Has(""));
    }
  }
}

TEST(Multiples, Gram6_OfAllSizes) {
  SchemaGrammar sevens(R"({"type":"integer","multipleOf":7})");
  EXPECT_TRUE(sevens.Has("0"));
  EXPECT_TRUE(sevens.Has("999999999999994"));
  EXPECT_TRUE(sevens.Has("-999999999999994"));
  EXPECT_FALSE(sevens.Has("999999999999995"));
  EXPECT_FALSE(sevens.Has("7000000000000000")) << "at most 15 digits where no limit says more";
  SchemaGrammar large(R"({"type":"integer","multipleOf":3,"minimum":9223372036854775800})");
  EXPECT_TRUE(large.Has("9223372036854775806"));
  EXPECT_FALSE(large.Has("9223372036854775807"));
  EXPECT_FALSE(large.Has("9223372036854775797"));
  SchemaGrammar small(R"({"type":"integer","multipleOf":2,"maximum":-9223372036854775807})");
  EXPECT_TRUE(small.Has("-9223372036854775808"));
}

TEST(Multiples, Gram6_DecimalsHaveTheDigitsOfTheMultiple) {
  SchemaGrammar cents(
      R"({"type":"number","multipleOf":0.01,"minimum":-1.005,"exclusiveMaximum":12.5})");
  for (const char* text : {"0", "0.0", "0.00", "-1", "-1.00", "12.49", "12", "3.1", "-0.01"}) {
    EXPECT_TRUE(cents.Has(text)) << text;
  }
  for (const char* text : {"-1.01", "12.5", "12.50", "0.001", "1.", "01", "1e1", "0.000", "-0"}) {
    EXPECT_FALSE(cents.Has(text)) << text;
  }
  SchemaGrammar quarters(R"({"type":"number","multipleOf":0.25})");
  for (int hundredths = 0; hundredths < 1000; ++hundredths) {
    const std::string text = fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
    EXPECT_EQ(quarters.Has(text), hundredths % 25 == 0) << text;
  }
  EXPECT_TRUE(quarters.Has("7.5"));
  EXPECT_TRUE(quarters.Has("9999999999999.75"));
  EXPECT_FALSE(quarters.Has("99999999999999.75")) << "a double has 15 digits";
}

TEST(Multiples, Gram6_NumbersOfAWholeMultiple) {
  SchemaGrammar fives(R"({"type":"number","multipleOf":5.0,"exclusiveMinimum":0.5})");
  for (const char* text : {"5", "5.0", "10", "115.0"}) EXPECT_TRUE(fives.Has(text)) << text;
  for (const char* text : {"0", "0.0", "5.5", "5.00", "5e1", "-5"}) {
    EXPECT_FALSE(fives.Has(text)) << text;
  }
  SchemaGrammar integers(R"({"type":"integer","multipleOf":2.5,"minimum":1,"maximum":20})");
  for (int value = 0; value <= 25; ++value) {
    EXPECT_EQ(integers.Has(fmt::format("{}", value)), value > 0 && value <= 20 && value % 5 == 0);
  }
}

TEST(Multiples, Gram6_BesideOtherKeywords) {
  SchemaGrammar both(
      R"({"type":"integer","maximum":50,"allOf":[{"multipleOf":4},{"multipleOf":6}]})");
  for (int value = 0; value <= 60; ++value) {
    EXPECT_EQ(both.Has(fmt::format("{}", value)), value <= 50 && value % 12 == 0) << value;
  }
  SchemaGrammar tenths(R"({"type":"number","allOf":[{"multipleOf":0.1},{"multipleOf":0.25}]})");
  EXPECT_TRUE(tenths.Has("1.5"));
  EXPECT_FALSE(tenths.Has("1.25"));
  EXPECT_FALSE(tenths.Has("1.1"));
  SchemaGrammar listed(
      R"({"enum":[1,2,3,4,4.5,6,"x",null],"multipleOf":1.5,"exclusiveMaximum":6})");
  for (const char* text : {"3", "4.5", "\"x\"", "null"}) EXPECT_TRUE(listed.Has(text)) << text;
  for (const char* text : {"1", "2", "4", "6"}) EXPECT_FALSE(listed.Has(text)) << text;
  SchemaGrammar constant(R"({"const":12,"multipleOf":4,"minimum":12})");
  EXPECT_TRUE(constant.Has("12"));
  EXPECT_EQ(ErrorOf(R"({"const":10,"multipleOf":4})").what, "no finite text satisfies it");
  EXPECT_EQ(ErrorOf(R"({"type":"integer","multipleOf":7,"minimum":1,"maximum":6})").what,
            "no finite text satisfies it");
}

TEST(Multiples, Gram2_TheirSizeIsBounded) {
  // What docs/guide/structured-output.md names.
  for (const int step : {255, 299, 300, 360, 500, 512, 1000, 1024, 3600, 4096, 65536, 86400}) {
    for (const char* limits :
         {"", R"(,"minimum":-9223372036854775807,"maximum":7777777777777777777)"}) {
      const std::string schema =
          fmt::format(R"({{"type":"integer","multipleOf":{}{}}})", step, limits);
      EXPECT_EQ(ErrorOf(schema).what, "") << schema;
    }
  }
  EXPECT_LT(SchemaGrammar(R"({"type":"integer","multipleOf":299})").size(), 100'000u);
  for (const char* step : {"997", "1048576", "999983"}) {
    const Error error =
        ErrorOf(fmt::format(R"({{"properties":{{"a":{{"multipleOf":{}}}}}}})", step));
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_THAT(error.where, testing::HasSubstr("#/properties/a/multipleOf")) << step;
    EXPECT_THAT(error.what, testing::HasSubstr("6000 remainders")) << step;
  }
  for (const char* step : {"0.3333333333333333", "1e300", "1e-300"}) {
    EXPECT_THAT(ErrorOf(fmt::format(R"({{"multipleOf":{}}})", step)).what,
                testing::HasSubstr("15 digits"))
        << step;
  }
  for (const char* step : {"0", "-2", "\"2\"", "null"}) {
    EXPECT_EQ(ErrorOf(fmt::format(R"({{"multipleOf":{}}})", step)).code, Code::kCorrupt) << step;
  }
  EXPECT_THAT(ErrorOf(R"({"type":"number","multipleOf":0.001,"minimum":10000000000000})").what,
              testing::HasSubstr("15 digits"));
}

}  // namespace
}  // namespace kv8::test
