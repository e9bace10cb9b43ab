#include "scalepack/scale_pack.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/sha256.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::EditManifest;
using test::EditScaleFile;
using test::Refuses;

constexpr const char* kName = "model.language_model.layers.7.self_attn.k_scale";

class ScalePackTest : public ::testing::Test {
 protected:
  void SetUp() override { test::MakePack(pack_); }
  Result<ScalePack> Read() const { return ReadScalePack(pack_); }
  Result<KvScales> Bind() const {
    KV8_ASSIGN_OR_RETURN(const ScalePack pack, Read());
    return BindScalePack(pack, test::TinyModel());
  }
  void EditTarget(const std::function<void(ScaleFile&)>& edit) {
    EditScaleFile(pack_, "scale_file", edit);
  }
  void EditDraft(const std::function<void(ScaleFile&)>& edit) {
    EditScaleFile(pack_, "draft_scale_file", edit);
  }
  test::TempDir dir_;
  fs::path pack_ = dir_ / "pack";
};

TEST_F(ScalePackTest, GivesEveryLayerItsOwnPair) {
  const auto scales = Bind();
  ASSERT_TRUE(scales.ok()) << scales.error().ToString();
  ASSERT_EQ(scales->target.size(), 3u);
  const int layers[] = {3, 7, 11};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scales->target[i].k, ScaleForMaxAbs(8.0f + static_cast<float>(layers[i]) / 4));
    EXPECT_EQ(scales->target[i].v, ScaleForMaxAbs(1.0f + static_cast<float>(layers[i]) / 16));
  }
  EXPECT_EQ(scales->draft->k, ScaleForMaxAbs(11.0f));
  EXPECT_FALSE(scales->pack_id.empty());
}

TEST_F(ScalePackTest, RefusesWithoutManifest) {
  fs::remove(pack_ / kManifestFile);
  test::RewriteSums(pack_);
  EXPECT_TRUE(Refuses(Read(), Code::kNotFound, {"kvscales-manifest.json"}));
}

TEST_F(ScalePackTest, RefusesAScaleFileOfAnotherHash) {
  EditManifest(pack_, [](Json& j) { j["scale_file"]["sha256"] = Sha256Hex("x"); });
  EXPECT_TRUE(Refuses(Read(), Code::kMismatch,
                      {"model-kvscales.safetensors", Sha256Hex("x"), "kvscales-manifest.json"}));
}

TEST_F(ScalePackTest, RefusesAnAbsentScaleFile) {
  fs::remove(pack_ / kTargetScaleFile);
  test::RewriteSums(pack_);
  EXPECT_TRUE(Refuses(Read(), Code::kMismatch, {"model-kvscales.safetensors", "SHA256SUMS"}));
}

TEST_F(ScalePackTest, RefusesDuplicateKeysInTheManifest) {
  std::string text = test::Slurp(pack_ / kManifestFile);
  text.replace(text.find('{'), 1, R"({"schema_version": 1,)");
  test::WriteFile(pack_ / kManifestFile, text);
  test::RewriteSums(pack_);
  EXPECT_TRUE(Refuses(Read(), Code::kCorrupt, {"kvscales-manifest.json", "schema_version"}));
}

TEST_F(ScalePackTest, RefusesNamesThatTheManifestDoesNotList) {
  EditTarget([](ScaleFile& f) { f.scales["model.language_model.layers.4.self_attn.k_scale"] = 2; });
  EXPECT_TRUE(Refuses(Read(), Code::kMismatch, {"layers.4.self_attn.k_scale", "does not list"}));
}

TEST_F(ScalePackTest, RefusesListedNamesThatTheFileLacks) {
  EditTarget([](ScaleFile& f) { f.scales.erase(kName); });
  EXPECT_TRUE(Refuses(Read(), Code::kMismatch, {kName, "lacks"}));
}

TEST_F(ScalePackTest, RefusesAPackThatIsShortOfAScale) {
  EditTarget([](ScaleFile& f) { f.scales.erase(kName); });
  EditManifest(pack_, [](Json& j) {
    j["scale_file"]["tensor_names"].erase(4);  // layers 11 (k, v), 3 (k, v), 7 k
    j["scale_file"]["tensor_count"] = 5;
  });
  ASSERT_TRUE(Read().ok()) << Read().error().ToString();
  EXPECT_TRUE(Refuses(Bind(), Code::kNotFound, {"1 of 6", kName, "kv8 calibrate"}));
}

TEST_F(ScalePackTest, RefusesAScaleOfALayerThatIsNotQsa) {
  const std::string extra = "model.language_model.layers.4.self_attn.k_scale";
  EditTarget([&](ScaleFile& f) { f.scales[extra] = 2; });
  EditManifest(pack_, [&](Json& j) {
    j["scale_file"]["tensor_names"].push_back(extra);
    j["scale_file"]["tensor_count"] = 7;
  });
  EXPECT_TRUE(Refuses(Bind(), Code::kMismatch, {extra, "no QSA layer"}));
}

TEST_F(ScalePackTest, RefusesAnotherPrefix) {
  EditTarget([](ScaleFile& f) {
    f.scales.erase(kName);
    f.scales["model.layers.7.self_attn.k_scale"] = 2;
  });
  EditManifest(pack_, [](Json& j) {
    j["scale_file"]["tensor_names"][4] = "model.layers.7.self_attn.k_scale";
  });
  EXPECT_TRUE(Refuses(Bind(), Code::kMismatch, {"model.layers.7.self_attn.k_scale"}));
}

TEST_F(ScalePackTest, RefusesBadValuesInTargetAndDraft) {
  for (const float bad : {0.0f, -0.5f, 1.0f, static_cast<float>(NAN), HUGE_VALF}) {
    EditTarget([&](ScaleFile& f) { f.scales[kName] = bad; });
    EXPECT_TRUE(Refuses(Read(), Code::kCorrupt, {kName, "model-kvscales.safetensors"})) << bad;
    fs::remove_all(pack_);
    test::MakePack(pack_);
    EditDraft([&](ScaleFile& f) { f.scales["mtp.layers.0.self_attn.v_scale"] = bad; });
    EXPECT_TRUE(Refuses(Read(), Code::kCorrupt,
                        {"mtp.layers.0.self_attn.v_scale", "model-bf16-kvscales-mtp.safetensors"}))
        << bad;
    fs::remove_all(pack_);
    test::MakePack(pack_);
  }
}

TEST_F(ScalePackTest, RefusesValuesThatTheManifestDenies) {
  EditTarget([](ScaleFile& f) { f.scales[kName] = 0.5f; });
  EXPECT_TRUE(Refuses(Bind(), Code::kMismatch, {"k scale of layer 7", "0.5", kName}));
}

TEST_F(ScalePackTest, RefusesAManifestListThatIsNotTheSetOfScales) {
  EditManifest(pack_, [](Json& j) { j["tensors"].erase(0); });
  EXPECT_TRUE(Refuses(Bind(), Code::kMismatch, {"\"tensors\""}));
  EditManifest(pack_, [](Json& j) {
    j["tensors"].push_back(j["tensors"][0]);
    j["tensors"].back()["layer"] = 5;
  });
  EXPECT_TRUE(Refuses(Bind(), Code::kMismatch, {"layer 5"}));
}

TEST_F(ScalePackTest, RefusesAHalfDraftPair) {
  EditDraft([](ScaleFile& f) { f.scales.erase("mtp.layers.0.self_attn.v_scale"); });
  EditManifest(pack_, [](Json& j) {
    j["draft_scale_file"]["tensor_names"].erase(1);
    j["draft_scale_file"]["tensor_count"] = 1;
    j["draft_tensors"].erase(1);
  });
  EXPECT_TRUE(Refuses(Bind(), Code::kNotFound,
                      {"1 of 2 draft", "mtp.layers.0.self_attn.v_scale", "kv8 calibrate"}));
}

TEST_F(ScalePackTest, RefusesPrototypeDraftScales) {
  for (const char* source : {"prototype:unit", "prototype:from-layer-11", ""}) {
    EditDraft([&](ScaleFile& f) { f.metadata["source"] = source; });
    EXPECT_TRUE(Refuses(Read(), Code::kCorrupt, {"source", source}));
  }
}

TEST_F(ScalePackTest, RefusesAnotherCheckpoint) {
  test::CopyTinyModel(dir_ / "other");
  test::EditIndex(dir_ / "other", [](Json& j) { j["note"] = "another index"; });
  const Checkpoint other = Checkpoint::Open(dir_ / "other").value();
  const auto pack = Read();
  ASSERT_TRUE(pack.ok());
  EXPECT_TRUE(Refuses(BindScalePack(*pack, other), Code::kMismatch,
                      {"model.safetensors.index.json", test::TinyModel().index_sha256(),
                       other.index_sha256(), "kv8 calibrate"}));
}

TEST_F(ScalePackTest, RefusesAFineTuneWithTheSameIndex) {
  test::CopyTunedModel(dir_ / "tuned", "model.layers.7.self_attn.k_proj.weight");
  const Checkpoint tuned = Checkpoint::Open(dir_ / "tuned").value();
  ASSERT_EQ(tuned.index_sha256(), test::TinyModel().index_sha256());
  EXPECT_TRUE(Refuses(BindScalePack(*Read(), tuned), Code::kMismatch, {"K/V weights"}));
}

TEST_F(ScalePackTest, APublishedPackIsAccepted) {
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  const auto scales = Bind();
  ASSERT_TRUE(scales.ok()) << scales.error().ToString();
  EXPECT_FALSE(scales->draft.has_value());
}

TEST_F(ScalePackTest, RefusesALinkOutOfThePack) {
  fs::rename(pack_ / kTargetScaleFile, dir_ / "scales");
  fs::create_symlink("../scales", pack_ / kTargetScaleFile);
  EXPECT_TRUE(Refuses(Read(), Code::kCorrupt, {"model-kvscales.safetensors", "leaves the pack"}));
}

}  // namespace
}  // namespace kv8
