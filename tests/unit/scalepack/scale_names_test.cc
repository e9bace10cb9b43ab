#include "scalepack/scale_names.h"

#include <gtest/gtest.h>

#include "support/scale_pack_fixture.h"

namespace kv8 {
namespace {

TEST(ScaleTensorName, FollowsTheCheckpointsPrefix) {
  EXPECT_EQ(ScaleTensorName("model.language_model.layers.", {false, 7, KvSide::kValue}),
            "model.language_model.layers.7.self_attn.v_scale");
  EXPECT_EQ(ScaleTensorName("model.language_model.layers.", {true, 0, KvSide::kKey}),
            "mtp.layers.0.self_attn.k_scale");
  EXPECT_EQ(ReportTensorName(48, {true, 0, KvSide::kKey}), "model.layers.48.self_attn.k_scale");
}

TEST(ParseScaleTensorName, FoldsEverySpellingInUse) {
  for (const char* name :
       {"model.layers.7.self_attn.k_scale", "model.layers.7.self_attn._k_scale",
        "model.layers.7.self_attn.attn.k_scale", "model.layers.7.self_attn.attn._k_scale",
        "model.layers.7.self_attn.k_proj.k_scale", "model.layers.7.self_attn.k_proj.output_scale",
        "model.layers.7.attn.k_scale"}) {
    EXPECT_EQ(ParseScaleTensorName(name), (ScaleSlot{false, 7, KvSide::kKey})) << name;
    std::string mirror = name;
    for (char& c : mirror) c = c == 'k' ? 'v' : c;
    EXPECT_EQ(ParseScaleTensorName(mirror), (ScaleSlot{false, 7, KvSide::kValue})) << mirror;
  }
  EXPECT_EQ(ParseScaleTensorName("mtp.layers.0.self_attn.v_scale"),
            (ScaleSlot{true, 0, KvSide::kValue}));
}

TEST(ParseScaleTensorName, LeavesOtherNamesAlone) {
  for (const char* name :
       {"", "model.layers.", "model.layers.7", "model.layers.7.", "model.layers.x.k_scale",
        "model.layers.-7.k_scale", "model.layers.07.k_scale", "model.layers.99999999999.k_scale",
        "xmodel.layers.7.self_attn.k_scale", "model.sublayers.7.self_attn.k_scale",
        "model.layers.7.self_attn.q_scale", "model.layers.7.self_attn.k_scale.x",
        "model.layers.7.self_attn.v_proj.k_scale", "model.layers.7.mlp.k_scale",
        "mtp.layers.1.self_attn.k_scale", "mtp.layers.0.self_attn.k_proj.weight"}) {
    EXPECT_FALSE(ParseScaleTensorName(name).has_value()) << name;
  }
}

TEST(TargetSlots, OnePairPerQsaLayer) {
  const auto slots = TargetSlots(test::TinyModel());
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(slots[0], (ScaleSlot{false, 3, KvSide::kKey}));
  EXPECT_EQ(slots[5], (ScaleSlot{false, 11, KvSide::kValue}));
}

}  // namespace
}  // namespace kv8
