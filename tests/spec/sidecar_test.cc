// docs/spec/scale-pack.md, "Sidecars".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "scalepack/manifest.h"
#include "scalepack/pack_writer.h"
#include "scalepack/scale_pack.h"
#include "scalepack/sidecar.h"
#include "support/pack_test.h"

namespace kv8 {
namespace {

using test::Refuses;
using test::TinyModel;

constexpr int kDraftLayer = 12;

Json Pair(double k = 0.02, double v = 0.004) {
  return {{"k_scale", k}, {"v_scale", v}};
}

/// Layers 3, 7, 11 and the draft's.
Json Whole() {
  Json layers;
  for (const int layer : {3, 7, 11, kDraftLayer}) layers[std::to_string(layer)] = Pair();
  return layers;
}

class SpecSidecar : public test::PackTest {
 protected:
  Result<PackSummary> Import(const std::string& text) {
    const auto file = dir_ / fmt::format("sidecar{}.json", copies_);
    test::WriteFile(file, text);
    KV8_ASSIGN_OR_RETURN(const SidecarFile sidecar, ReadSidecar(file, kDraftLayer));
    imported_ = dir_ / fmt::format("imported{}", copies_++);
    return WriteImportedPack(sidecar, file.string(), TinyModel(), imported_, {});
  }
  void ExpectRefused(const Json& json, Code code, const std::vector<std::string>& naming) {
    EXPECT_TRUE(Refuses(Import(json.dump()), code, naming)) << json;
  }
  std::filesystem::path imported_;
};

TEST_F(SpecSidecar, Scale43_EveryFormIsRead) {
  Json list = Json::array();
  const Json whole = Whole();
  for (const auto& [layer, pair] : whole.items()) {
    list.push_back(pair);
    list.back()["layer"] = std::stoi(layer);
  }
  const SidecarScales scales = ParseSidecar(Whole(), kDraftLayer, "s").value();
  EXPECT_EQ(scales.size(), 8u);
  EXPECT_EQ(scales.at({false, 7, KvSide::kValue}), 0.004f);
  EXPECT_EQ(scales.at({true, 0, KvSide::kKey}), 0.02f);
  for (const Json& layers : {Whole(), list}) {
    const Json json = {{"per_layer", layers}, {"format", "e4m3"}};
    EXPECT_EQ(ParseSidecar(json, kDraftLayer, "s").value(), scales);
  }
  Json both = {{"per_layer", Whole()}, {"3", Pair()}};
  ExpectRefused(both, Code::kCorrupt, {"\"3\"", "beside \"per_layer\""});
}

TEST_F(SpecSidecar, Scale44_LayersMustBeTheModels) {
  Json json = Whole();
  json["4"] = Pair();
  ExpectRefused(json, Code::kMismatch, {"layer 4", "no QSA layer"});
  json = Whole();
  json["13"] = Pair();
  ExpectRefused(json, Code::kCorrupt, {"\"13", "draft layer 12"});
  json = Whole();
  json.erase("7");
  ExpectRefused(json, Code::kNotFound, {"2 of 6", "7.self_attn.k_scale"});
  for (const char* const id : {"x", "03", "-3", "3.0", ""}) {
    json = Whole();
    json[id] = Pair();
    ExpectRefused(json, Code::kCorrupt, {"is no layer id"});
  }
  const Json twice = {{"per_layer", {Pair(), Pair()}}};
  json = twice;
  for (Json& entry : json["per_layer"]) entry["layer"] = 3;
  ExpectRefused(json, Code::kCorrupt, {"per_layer[1].layer", "twice"});
  ExpectRefused(twice, Code::kCorrupt, {"per_layer[0].layer"});
  EXPECT_TRUE(Refuses(Import(R"({"3": {}, "3": {}})"), Code::kCorrupt, {"3"}));
  ExpectRefused(Json::array(), Code::kCorrupt, {"object"});
}

TEST_F(SpecSidecar, Scale44_ScalesMustBeUsable) {
  const auto refused = [&](const Json& value, const std::string& why) {
    Json json = Whole();
    json["7"]["v_scale"] = value;
    ExpectRefused(json, Code::kCorrupt, {"7.v_scale", why});
  };
  refused(0, "positive");
  refused(-0.5, "positive");
  refused(1, "not calibrated");
  refused(1e-60, "positive");
  refused(1e60, "positive");
  refused(nullptr, "v_scale");
  refused("0.5", "v_scale");
  refused(true, "v_scale");
  refused(Json::array({0.1, 0.2}), "per head");
  EXPECT_TRUE(Refuses(Import(R"({"3": {"k_scale": NaN, "v_scale": 1}})"), Code::kCorrupt, {}));
  Json json = Whole();
  json["7"].erase("v_scale");
  ExpectRefused(json, Code::kCorrupt, {"7.v_scale"});
  json = Whole();
  json["7"]["zero_point"] = 0;
  ExpectRefused(json, Code::kCorrupt, {"7.zero_point", "unknown"});
  json = Whole();
  json["7"]["layer"] = 7;
  ExpectRefused(json, Code::kCorrupt, {"7.layer", "unknown"});
  json = Whole();
  json["7"] = Pair(90, 90);
  ExpectRefused(json, Code::kMismatch, {"7.self_attn", "cannot give more"});
}

TEST_F(SpecSidecar, Scale45_ThePackSaysThatItWasImported) {
  ASSERT_TRUE(Import(Whole().dump()).ok());
  const ScalePack pack = ReadScalePack(imported_).value();
  EXPECT_EQ(pack.manifest.imported_sha256, Sha256Hex(Whole().dump()));
  EXPECT_EQ(ManifestToJson(pack.manifest).at("imported_sha256"), Sha256Hex(Whole().dump()));
  for (const ManifestTensor& tensor : pack.manifest.tensors) EXPECT_FALSE(tensor.max_abs);
  EXPECT_EQ(pack.manifest.base, ReadScalePack(pack_)->manifest.base);
  EXPECT_TRUE(LoadKvScales(TinyModel(), imported_, true).ok());
  EXPECT_FALSE(ManifestToJson(ReadScalePack(pack_)->manifest).contains("imported_sha256"));
}

TEST_F(SpecSidecar, Scale46_ExportAndImportKeepEveryBit) {
  const KvScales scales = Load().value();
  for (const SidecarForm form : {SidecarForm::kLayers, SidecarForm::kPerLayer}) {
    ASSERT_TRUE(Import(DumpJson(SidecarToJson(scales, TinyModel(), form))).ok());
    const KvScales again = LoadKvScales(TinyModel(), imported_, true).value();
    for (std::size_t i = 0; i < scales.target.size(); ++i) {
      EXPECT_EQ(again.target[i].k, scales.target[i].k);
      EXPECT_EQ(again.target[i].v, scales.target[i].v);
    }
    EXPECT_EQ(again.draft->k, scales.draft->k);
    EXPECT_EQ(again.draft->v, scales.draft->v);
  }
}

}  // namespace
}  // namespace kv8
