#include "base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using ::testing::HasSubstr;

TEST(JsonFields, ReadsWhatIsThere) {
  const Json json = {{"s", "text"}, {"n", 3}, {"x", 0.5}, {"b", true}, {"o", {{"a", {1, 2}}}}};
  const auto fields = JsonFields::Of(json, "f.json", "").value();
  EXPECT_EQ(fields.String("s").value(), "text");
  EXPECT_EQ(fields.Count("n").value(), 3u);
  EXPECT_EQ(fields.Number("x").value(), 0.5);
  EXPECT_TRUE(fields.Bool("b").value());
  EXPECT_EQ(fields.Object("o")->Array("a").value()->size(), 2u);
}

TEST(JsonFields, NamesFileAndPathOfWhatIsWrong) {
  const Json json = {{"o", {{"n", true}, {"m", -1}, {"big", 9}, {"f", 1.0}, {"h", "ABC"}}}};
  const auto fields = JsonFields::Of(json, "f.json", "").value().Object("o").value();
  for (const auto& error :
       {fields.Count("n").error(), fields.Count("m").error(), fields.Count("big", 8).error(),
        fields.Count("f").error(), fields.Sha256("h").error(), fields.String("absent").error(),
        fields.Number("h").error(), fields.Array("h").error(), fields.Object("h").error()}) {
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.where, "f.json");
    EXPECT_THAT(error.what, HasSubstr("\"o."));
    EXPECT_FALSE(error.remedy.empty());
  }
  EXPECT_THAT(fields.Count("big", 8).error().what, HasSubstr("is 9; at most 8"));
}

TEST(AsTokenId, TakesNonNegative32BitIntegersOnly) {
  EXPECT_EQ(AsTokenId(Json(0)), 0);
  EXPECT_EQ(AsTokenId(Json(INT32_MAX)), INT32_MAX);
  for (const Json& bad : {Json(-1), Json(INT32_MAX + 1u), Json(UINT64_MAX), Json(1.0), Json(true),
                          Json("1"), Json()}) {
    EXPECT_EQ(AsTokenId(bad), std::nullopt) << bad;
  }
}

TEST(JsonFields, RefusesARootThatIsNoObject) {
  EXPECT_EQ(JsonFields::Of(Json::array(), "f.json", "").error().code, Code::kCorrupt);
  EXPECT_EQ(JsonFields::Of(Json(), "f.json", "a").error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace kv8
