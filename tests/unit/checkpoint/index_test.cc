#include "checkpoint/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using testing::HasSubstr;

TEST(ParseTensorIndex, ReadsTheMapAndIgnoresOtherKeys) {
  const Json json = {{"metadata", {{"total_size", 3}}},
                     {"weight_map", {{"a", "x.safetensors"}, {"b", "y.safetensors"}}}};
  const auto index = ParseTensorIndex(json, "t");
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(*index, (TensorIndex{{"a", "x.safetensors"}, {"b", "y.safetensors"}}));
}

TEST(ParseTensorIndex, RefusesWhatIsNotAMap) {
  for (const Json& json :
       {Json::array(), Json(3), Json::object(), Json{{"weight_map", 3}},
        Json{{"weight_map", Json::array()}}, Json{{"weight_map", Json::object()}}}) {
    const auto index = ParseTensorIndex(json, "i.json");
    ASSERT_FALSE(index.ok()) << json;
    EXPECT_EQ(index.error().code, Code::kCorrupt);
    EXPECT_EQ(index.error().where, "i.json");
  }
}

TEST(ParseTensorIndex, RefusesFileNamesThatCouldLeaveTheDirectory) {
  for (const Json& file :
       {Json("/etc/passwd"), Json("../x.safetensors"), Json("sub/x.safetensors"),
        Json("sub\\x.safetensors"), Json(std::string("x\0.safetensors", 14)), Json(""), Json("."),
        Json(".."), Json(".safetensors"), Json("x.bin"), Json(3), Json()}) {
    const auto index = ParseTensorIndex(Json{{"weight_map", {{"the.tensor", file}}}}, "i.json");
    ASSERT_FALSE(index.ok()) << file;
    EXPECT_EQ(index.error().code, Code::kCorrupt);
    EXPECT_THAT(index.error().what, HasSubstr("the.tensor"));
  }
}

}  // namespace
}  // namespace kv8
