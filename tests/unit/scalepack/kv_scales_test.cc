#include "scalepack/kv_scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.h"
#include "scalepack/materialize.h"
#include "scalepack/scale_names.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::Refuses;

/// A full set for the bundled model, spelled as in the files.
ScaleFile FullSet(bool with_draft = true) {
  ScaleFile file;
  float value = 0.001f;
  std::vector<ScaleSlot> slots = TargetSlots(test::TinyModel());
  if (with_draft) slots.insert(slots.end(), {{true, 0, KvSide::kKey}, {true, 0, KvSide::kValue}});
  for (const ScaleSlot& slot : slots) {
    file.scales[ScaleTensorName(test::TinyModel().layer_prefix(), slot)] = value;
    value += 0.001f;
  }
  return file;
}

/// Scales that stand in the checkpoint itself, as a quantiser would write them.
class OwnScales : public ::testing::Test {
 protected:
  Result<KvScales> Load(const ScaleFile& file, bool need_draft = false) {
    const fs::path model = dir_ / std::to_string(count_++);
    test::CopyTinyModel(model);
    test::AddShard(model, "extra.safetensors", file);
    const auto checkpoint = Checkpoint::Open(model);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
    return LoadKvScales(*checkpoint, std::nullopt, need_draft);
  }
  static std::string Name(int layer, char side) {
    return "model.language_model.layers." + std::to_string(layer) + ".self_attn." + side + "_scale";
  }
  test::TempDir dir_;
  int count_ = 0;
};

TEST_F(OwnScales, AFullSetIsAccepted) {
  const auto scales = Load(FullSet(), /*need_draft=*/true);
  ASSERT_TRUE(scales.ok()) << scales.error().ToString();
  EXPECT_EQ(scales->target[0].k, 0.001f);
  EXPECT_NE(scales->target[0].v, scales->target[0].k);
  EXPECT_TRUE(scales->draft.has_value());
}

TEST_F(OwnScales, NoneAtAllIsRefusedWithTheRemedy) {
  EXPECT_TRUE(Refuses(
      LoadKvScales(test::TinyModel(), std::nullopt, false), Code::kNotFound,
      {"6 of 6 target", Name(3, 'k'), Name(11, 'v'), "kv8 calibrate", "kv8 pack", "--scale-pack"}));
}

TEST_F(OwnScales, OneSideOrLayerMissingIsRefusedByName) {
  ScaleFile file = FullSet();
  file.scales.erase(Name(7, 'v'));
  EXPECT_TRUE(Refuses(Load(file), Code::kNotFound, {"1 of 6", Name(7, 'v')}));
  file.scales.erase(Name(7, 'k'));
  EXPECT_TRUE(Refuses(Load(file), Code::kNotFound, {"2 of 6", Name(7, 'k'), Name(7, 'v')}));
}

TEST_F(OwnScales, BadValuesAreRefusedForOneSomeAndAllLayers) {
  for (const float bad : {0.0f, -0.5f, 1.0f, static_cast<float>(NAN), HUGE_VALF}) {
    ScaleFile file = FullSet();
    for (const int layer : {11, 7, 3}) {
      file.scales[Name(layer, 'v')] = bad;
      EXPECT_TRUE(Refuses(Load(file), Code::kCorrupt,
                          {"self_attn.v_scale", "extra.safetensors", "kv8 calibrate"}))
          << bad;
    }
  }
}

TEST_F(OwnScales, AHalfOrBadDraftPairIsRefusedEvenWithoutSpeculation) {
  ScaleFile file = FullSet();
  file.scales.erase("mtp.layers.0.self_attn.k_scale");
  EXPECT_TRUE(Refuses(Load(file), Code::kNotFound, {"1 of 2 draft", "mtp.layers.0"}));
  file.scales["mtp.layers.0.self_attn.k_scale"] = 1.0f;
  EXPECT_TRUE(Refuses(Load(file), Code::kCorrupt, {"mtp.layers.0.self_attn.k_scale"}));
}

TEST_F(OwnScales, TwoSpellingsOfOneScaleAreRefused) {
  ScaleFile file = FullSet();
  file.scales["model.language_model.layers.7.self_attn.k_proj.k_scale"] = 0.5f;
  EXPECT_TRUE(
      Refuses(Load(file), Code::kCorrupt,
              {"model.layers.7.self_attn.k_proj.k_scale", "model.layers.7.self_attn.k_scale"}));
}

TEST_F(OwnScales, AnotherSpellingAloneIsFolded) {
  ScaleFile file = FullSet();
  file.scales.erase(Name(7, 'k'));
  file.scales["model.language_model.layers.7.self_attn.attn._k_scale"] = 0.02f;
  const auto scales = Load(file);
  ASSERT_TRUE(scales.ok()) << scales.error().ToString();
  EXPECT_EQ(scales->target[1].k, 0.02f);
}

TEST_F(OwnScales, ScalesOfLayersThatAreNotQsaAreNoneOfOurs) {
  ScaleFile file = FullSet();
  file.scales["model.language_model.layers.4.self_attn.k_scale"] = 1.0f;
  EXPECT_TRUE(Load(file).ok());
}

TEST_F(OwnScales, AWrongShapeIsRefused) {
  const fs::path model = dir_ / "shape";
  test::CopyTinyModel(model);
  test::AddShard(model, "extra.safetensors", FullSet());
  const float values[2] = {0.5f, 0.5f};
  SafetensorsContent content;
  for (const auto& [name, value] : FullSet().scales) {
    content.tensors[name] = {reinterpret_cast<const std::byte*>(values), DType::kF32, {2}};
  }
  test::WriteFile(model / "extra.safetensors", SerializeSafetensors(content));
  EXPECT_TRUE(Refuses(LoadKvScales(Checkpoint::Open(model).value(), std::nullopt, false),
                      Code::kCorrupt, {"extra.safetensors", "[2]", "_scale"}));
}

TEST_F(OwnScales, AMarkedShardWithoutProvenanceIsRefused) {
  for (const auto& metadata : {TargetMetadata(), DraftMetadata()}) {
    ScaleFile file = FullSet();
    file.metadata = metadata;
    EXPECT_TRUE(Refuses(Load(file), Code::kNotFound,
                        {"kvscales-provenance.json", "extra.safetensors", "kv8 materialize"}));
  }
}

TEST_F(OwnScales, APackBesideThemIsRefused) {
  test::MakePack(dir_ / "pack");
  test::CopyTinyModel(dir_ / "model");
  test::AddShard(dir_ / "model", "extra.safetensors", FullSet());
  EXPECT_TRUE(Refuses(LoadKvScales(Checkpoint::Open(dir_ / "model").value(), dir_ / "pack", false),
                      Code::kInvalidArgument, {"scales of its own"}));
}

TEST_F(OwnScales, SpeculationNeedsTheDraftsPair) {
  EXPECT_TRUE(Load(FullSet(false)).ok());
  EXPECT_TRUE(Refuses(Load(FullSet(false), /*need_draft=*/true), Code::kNotFound,
                      {"mtp.layers.0.self_attn.k_scale", "mtp.layers.0.self_attn.v_scale",
                       "kv8 calibrate", "--draft-report"}));
}

TEST_F(OwnScales, AreListedForInspection) {
  ScaleFile file = FullSet();
  file.scales[Name(7, 'v')] = 1.0f;
  file.scales.erase("mtp.layers.0.self_attn.k_scale");
  file.scales.erase("mtp.layers.0.self_attn.v_scale");
  test::CopyTinyModel(dir_ / "model");
  test::AddShard(dir_ / "model", "extra.safetensors", file);
  const auto layers = ListKvScales(Checkpoint::Open(dir_ / "model").value());
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0].layer, 3);
  EXPECT_EQ(layers[0].k, 0.001f);
  EXPECT_EQ(layers[0].file, "extra.safetensors");
  EXPECT_FALSE(layers[1].v.has_value());  // unusable
  EXPECT_TRUE(layers[3].draft);
  EXPECT_FALSE(layers[3].k.has_value());
}

/// Scales that stand in a materialized view.
class ViewScales : public ::testing::Test {
 protected:
  void SetUp() override {
    test::MakePack(dir_ / "pack");
    const auto made = Materialize({test::TinyModelDir(), dir_ / "pack", view_, {}, {}});
    ASSERT_TRUE(made.ok()) << made.error().ToString();
  }
  Result<KvScales> Load() {
    KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(view_));
    return LoadKvScales(checkpoint, std::nullopt, true);
  }
  void EditProvenance(const std::function<void(Json&)>& edit) {
    Json json = Json::parse(test::Slurp(view_ / kProvenanceFile));
    edit(json);
    test::WriteFile(view_ / kProvenanceFile, json.dump());
  }
  test::TempDir dir_;
  fs::path view_ = dir_ / "view";
};

TEST_F(ViewScales, AreThoseOfThePack) {
  const auto own = Load();
  ASSERT_TRUE(own.ok()) << own.error().ToString();
  const auto packed = LoadKvScales(test::TinyModel(), dir_ / "pack", true).value();
  ASSERT_EQ(own->target.size(), packed.target.size());
  for (std::size_t i = 0; i < own->target.size(); ++i) {
    EXPECT_EQ(own->target[i].k, packed.target[i].k);
    EXPECT_EQ(own->target[i].v, packed.target[i].v);
  }
  EXPECT_EQ(own->draft->k, packed.draft->k);
  EXPECT_EQ(own->draft->v, packed.draft->v);
  EXPECT_EQ(own->pack_id, packed.pack_id);
}

TEST_F(ViewScales, AChangedIndexIsRefused) {
  test::EditIndex(view_, [](Json& j) { j["note"] = 1; });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch,
                      {"kvscales-provenance.json", "model.safetensors.index.json"}));
}

TEST_F(ViewScales, ChangedScaleFilesAreRefused) {
  const fs::path target = view_ / kTargetScaleFile;
  std::string bytes = test::Slurp(target);
  const std::string original = bytes;
  bytes[bytes.size() - 4] ^= 1;
  test::WriteFile(target, bytes);
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"model-kvscales.safetensors", "SHA-256"}));
  test::WriteFile(target, original);
  bytes = test::Slurp(view_ / kDraftScaleFile);
  bytes[bytes.size() - 4] ^= 1;
  test::WriteFile(view_ / kDraftScaleFile, bytes);
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"model-bf16-kvscales-mtp.safetensors"}));
}

TEST_F(ViewScales, AMissingProvenanceIsRefused) {
  fs::remove(view_ / kProvenanceFile);
  EXPECT_TRUE(Refuses(Load(), Code::kNotFound, {"kvscales-provenance.json", "kv8 materialize"}));
}

TEST_F(ViewScales, AProvenanceThatDeclaresStandInsIsRefused) {
  EditProvenance([](Json& j) { j["unit_scale_negative_control"] = true; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"unit_scale_negative_control"}));
  EditProvenance([](Json& j) {
    j.erase("unit_scale_negative_control");
    j["mtp_scale_source"] = "prototype:from-layer-11";
  });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"mtp_scale_source", "prototype:from-layer-11"}));
}

TEST_F(ViewScales, AProvenanceOfOtherWeightsOrSchemaIsRefused) {
  EditProvenance([](Json& j) { j["kv_weights_sha256"] = std::string(64, 'a'); });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"K/V weights", std::string(64, 'a')}));
  EditProvenance([](Json& j) { j["schema_version"] = 2; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"schema_version"}));
}

TEST_F(ViewScales, AProvenanceWithoutTheDraftIsRefused) {
  EditProvenance([](Json& j) { j["mtp_scale_file_sha256"] = nullptr; });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"draft scales"}));
}

TEST_F(ViewScales, TheOlderToolsProvenanceIsRead) {
  EditProvenance([](Json& j) {
    Json older = {{"schema_version", 1},
                  {"base_checkpoint", j["base_checkpoint"]},
                  {"base_index_sha256", j["base_index_sha256"]},
                  {"scale_file_sha256", j["target_scale_file_sha256"]},
                  {"mtp_scale_file_sha256", j["mtp_scale_file_sha256"]},
                  {"unit_scale_negative_control", false}};
    j = older;
  });
  const auto scales = Load();
  EXPECT_TRUE(scales.ok()) << scales.error().ToString();
}

}  // namespace
}  // namespace kv8
