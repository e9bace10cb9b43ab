#include "scalepack/manifest.h"

#include <gtest/gtest.h>

#include "scalepack/calibration_report.h"
#include "support/scale_pack_fixture.h"

namespace kv8 {
namespace {

using test::Refuses;

ScaleManifest Sample() {
  ScaleManifest manifest;
  manifest.artifact_id = "id";
  manifest.repo_id = "owner/name";
  manifest.base.index_sha256 = std::string(64, '1');
  manifest.base.kv_weights_sha256 = std::string(64, '2');
  manifest.base.weights_sha256 = std::string(64, '5');
  manifest.base.config = {{"rms_norm_eps", 1e-6}, {"layer_types", {"full_attention"}}};
  manifest.target = {"model-kvscales.safetensors", std::string(64, '3'), {"a", "b"}};
  manifest.draft = {std::string(kDraftScaleFile), std::string(64, '4'), {"c"}};
  for (const bool draft : {false, true}) {
    const int layer = draft ? 0 : 3;
    manifest.tensors.push_back({{draft, layer, KvSide::kKey}, ScaleForMaxAbs(9.0f), 9.0f, {}});
    manifest.tensors.back().summary = {{"saturation_ratio", 0.0}};
  }
  return manifest;
}

Result<ScaleManifest> ParseEdited(const std::function<void(Json&)>& edit) {
  Json json = ManifestToJson(Sample());
  edit(json);
  return ParseManifest(json, "m.json");
}

TEST(Manifest, RoundTrips) {
  const auto read = ParseManifest(ManifestToJson(Sample()), "m.json");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->artifact_id, "id");
  EXPECT_EQ(read->base, Sample().base);
  EXPECT_EQ(read->target.tensor_names, Sample().target.tensor_names);
  EXPECT_EQ(read->draft->filename, kDraftScaleFile);
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[1].slot, (ScaleSlot{true, 0, KvSide::kKey}));
  EXPECT_EQ(read->tensors[0].scale, ScaleForMaxAbs(9.0f));
}

TEST(Manifest, HasThePublishedKeys) {
  const Json json = ManifestToJson(Sample());
  for (const char* path :
       {"/schema_version", "/artifact_id", "/scale_contract", "/loader_contract",
        "/base_checkpoint/repo_id", "/base_checkpoint/index_sha256", "/scale_file/filename",
        "/scale_file/sha256", "/scale_file/tensor_names", "/scale_file/tensor_count",
        "/tensors/0/layer", "/tensors/0/kind", "/tensors/0/max_abs", "/tensors/0/scale"}) {
    EXPECT_TRUE(json.contains(Json::json_pointer(path))) << path;
  }
}

TEST(Manifest, RefusesAnotherSchema) {
  for (const Json& bad : {Json(2), Json(true), Json("1"), Json(1.0), Json()}) {
    EXPECT_TRUE(Refuses(ParseEdited([&](Json& j) { j["schema_version"] = bad; }), Code::kCorrupt,
                        {"m.json", "schema_version"}))
        << bad;
  }
  EXPECT_TRUE(Refuses(ParseManifest(Json::array(), "m.json"), Code::kCorrupt, {"m.json"}));
}

TEST(Manifest, RefusesFileNamesThatLeaveThePackOrHideOtherFiles) {
  for (const char* bad : {"", ".", "..", "../x.safetensors", "/x.safetensors", "a/b.safetensors",
                          "a\\b.safetensors", "model.safetensors.index.json", "config.json",
                          "SHA256SUMS", "model-bf16-kvscales-mtp.safetensors"}) {
    EXPECT_TRUE(Refuses(ParseEdited([&](Json& j) { j["scale_file"]["filename"] = bad; }),
                        Code::kCorrupt, {"scale_file.filename"}))
        << bad;
  }
  EXPECT_TRUE(
      Refuses(ParseEdited([](Json& j) { j["draft_scale_file"]["filename"] = "other.safetensors"; }),
              Code::kCorrupt, {"draft_scale_file.filename"}));
}

TEST(Manifest, RefusesWrongNameLists) {
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) { j["scale_file"]["tensor_count"] = 3; }),
                      Code::kCorrupt, {"scale_file.tensor_count", "3", "2"}));
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) {
                        j["scale_file"]["tensor_names"] = {"a", "a"};
                      }),
                      Code::kCorrupt, {"tensor_names", "a twice"}));
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) {
                        j["scale_file"]["tensor_names"] = {"a", 1};
                      }),
                      Code::kCorrupt, {"tensor_names"}));
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) { j["scale_file"]["tensor_count"] = true; }),
                      Code::kCorrupt, {"tensor_count"}));
}

TEST(Manifest, RefusesWrongHashes) {
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) { j["base_checkpoint"]["index_sha256"] = "12"; }),
                      Code::kCorrupt, {"base_checkpoint.index_sha256"}));
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) { j["scale_file"].erase("sha256"); }), Code::kCorrupt,
                      {"scale_file.sha256"}));
}

TEST(Manifest, RefusesTensorsThatContradictThemselves) {
  const auto with = [](const char* key, Json value) {
    return ParseEdited([&](Json& j) { j["tensors"][0][key] = value; });
  };
  EXPECT_TRUE(Refuses(with("max_abs", 10.0), Code::kCorrupt, {"tensors[0].scale", "10"}));
  EXPECT_TRUE(Refuses(with("scale", 0.0), Code::kCorrupt, {"tensors[0].scale"}));
  EXPECT_TRUE(Refuses(with("scale", 1e-60), Code::kCorrupt, {"tensors[0].scale"}));
  EXPECT_TRUE(Refuses(with("scale", "x"), Code::kCorrupt, {"tensors[0].scale"}));
  EXPECT_TRUE(Refuses(with("kind", "q"), Code::kCorrupt, {"tensors[0].kind"}));
  EXPECT_TRUE(Refuses(with("layer", -3), Code::kCorrupt, {"tensors[0].layer"}));
  EXPECT_TRUE(Refuses(with("layer", false), Code::kCorrupt, {"tensors[0].layer"}));
  EXPECT_TRUE(Refuses(ParseEdited([](Json& j) { j["tensors"].push_back(j["tensors"][0]); }),
                      Code::kCorrupt, {"tensors[1]", "twice"}));
}

TEST(Manifest, TensorsMayLackTheMaximumOrBeAbsent) {
  EXPECT_TRUE(ParseEdited([](Json& j) { j["tensors"][0].erase("max_abs"); }).ok());
  EXPECT_TRUE(ParseEdited([](Json& j) { j.erase("tensors"); }).ok());
}

}  // namespace
}  // namespace kv8
