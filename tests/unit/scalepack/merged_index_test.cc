#include "scalepack/merged_index.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/scale_pack_fixture.h"

namespace kv8 {
namespace {

using test::Refuses;

const std::vector<AddedShard> kAdded = {{"scales.safetensors", 100, {"k", "v"}},
                                        {"draft.safetensors", 7, {"dk"}}};

Json Base() {
  return {{"metadata", {{"total_size", 1000}, {"note", "x"}}},
          {"weight_map", {{"w", "model.safetensors"}}},
          {"extra", {1, 2}}};
}

Result<Json> MergeEdited(const std::function<void(Json&)>& edit) {
  Json base = Base();
  edit(base);
  return MergeIndex(base, kAdded, "index");
}

TEST(MergeIndex, AddsTensorsAndWholeFileSizes) {
  const Json merged = MergeIndex(Base(), kAdded, "index").value();
  EXPECT_EQ(merged["weight_map"]["w"], "model.safetensors");
  EXPECT_EQ(merged["weight_map"]["k"], "scales.safetensors");
  EXPECT_EQ(merged["weight_map"]["dk"], "draft.safetensors");
  EXPECT_EQ(merged["metadata"], Json({{"total_size", 1107}, {"note", "x"}}));
  EXPECT_EQ(merged["extra"], Json({1, 2}));
}

TEST(MergeIndex, TouchesTheTotalOnlyWhereItIsAnInteger) {
  for (const Json& total : {Json(true), Json("1000"), Json(1000.0), Json()}) {
    const auto merged = MergeEdited([&](Json& j) { j["metadata"]["total_size"] = total; });
    ASSERT_TRUE(merged.ok()) << total;
    EXPECT_EQ((*merged)["metadata"]["total_size"], total);
  }
}

TEST(MergeIndex, TakesNullAndAbsentMetadata) {
  EXPECT_TRUE(MergeEdited([](Json& j) { j["metadata"] = nullptr; }).value()["metadata"].is_null());
  EXPECT_TRUE(MergeEdited([](Json& j) { j.erase("metadata"); }).ok());
}

TEST(MergeIndex, RefusesWhatIsNoIndex) {
  EXPECT_TRUE(Refuses(MergeIndex(Json(3), kAdded, "index"), Code::kCorrupt, {"index"}));
  EXPECT_TRUE(
      Refuses(MergeEdited([](Json& j) { j["weight_map"] = 1; }), Code::kCorrupt, {"weight_map"}));
  EXPECT_TRUE(
      Refuses(MergeEdited([](Json& j) { j["metadata"] = 1; }), Code::kCorrupt, {"metadata"}));
  EXPECT_TRUE(Refuses(MergeEdited([](Json& j) { j["metadata"]["total_size"] = -1; }),
                      Code::kCorrupt, {"total_size", "negative"}));
  EXPECT_TRUE(Refuses(MergeEdited([](Json& j) { j["metadata"]["total_size"] = UINT64_MAX; }),
                      Code::kCorrupt, {"total_size", "overflows"}));
}

TEST(MergeIndex, RefusesCollisionsAndListsThem) {
  EXPECT_TRUE(Refuses(MergeEdited([](Json& j) {
                        j["weight_map"]["v"] = "a.safetensors";
                        j["weight_map"]["dk"] = "a.safetensors";
                      }),
                      Code::kAlreadyExists, {"v, dk"}));
  EXPECT_TRUE(Refuses(MergeEdited([](Json& j) { j["weight_map"]["z"] = "scales.safetensors"; }),
                      Code::kAlreadyExists, {"z", "scales.safetensors"}));
}

}  // namespace
}  // namespace kv8
