// docs/spec/scale-pack.md, statement by statement. Finer cases: tests/unit/scalepack.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/sha256.h"
#include "scalepack/kv_scales.h"
#include "scalepack/materialize.h"
#include "scalepack/pack_writer.h"
#include "scalepack/scale_names.h"
#include "scalepack/scale_pack.h"
#include "support/crash.h"
#include "support/pack_test.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::EditManifest;
using test::EditScaleFile;
using test::Refuses;
using test::TinyModel;

constexpr const char* kName = "model.language_model.layers.7.self_attn.k_scale";
constexpr const char* kDraftName = "mtp.layers.0.self_attn.k_scale";

class SpecScalePack : public test::PackTest {};

TEST_F(SpecScalePack, Scale1_SmallestCoveringFp32) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(ScaleForMaxAbs(7.671875f)), 0x3c8c4925u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(ScaleForMaxAbs(37.6875f)), 0x3dac4925u);
  for (float max_abs = 0.001f; max_abs < 1e4f; max_abs *= 1.0137f) {
    const float scale = ScaleForMaxAbs(max_abs);
    EXPECT_GE(448.0 * scale, max_abs);
    EXPECT_LT(448.0 * std::nextafterf(scale, 0), max_abs);
  }
}

TEST_F(SpecScalePack, Scale2_448GivesTheNumberAboveOne) {
  EXPECT_EQ(ScaleForMaxAbs(448.0f), std::nextafterf(1.0f, 2.0f));
}

TEST_F(SpecScalePack, Scale3_EveryScaleIsAPositiveFp32OtherThanOne) {
  for (const float bad : {0.0f, -1.0f, 1.0f, static_cast<float>(NAN), HUGE_VALF}) {
    EditScaleFile(pack_, "scale_file", [&](ScaleFile& f) { f.scales[kName] = bad; });
    EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {kName, "kv8 calibrate"})) << bad;
    Restore();
    EditScaleFile(pack_, "draft_scale_file", [&](ScaleFile& f) { f.scales[kDraftName] = bad; });
    EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {kDraftName, "kv8 calibrate"})) << bad;
    Restore();
  }
}

TEST_F(SpecScalePack, Scale4_NamesFollowTheCheckpoint) {
  const ScalePack pack = ReadScalePack(pack_).value();
  EXPECT_TRUE(pack.target.content.scales.contains(kName));
  EXPECT_TRUE(pack.draft->content.scales.contains(kDraftName));
}

TEST_F(SpecScalePack, Scale5_ReleasedModelTakes2640Bytes) {
  ScaleFile file{.scales = {}, .metadata = TargetMetadata()};
  for (int layer = 3; layer < 48; layer += 4) {
    for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
      file.scales[ScaleTensorName("model.language_model.layers.", {false, layer, side})] = 0.02f;
    }
  }
  EXPECT_EQ(SerializeScaleFile(file).size(), 2640u);
}

TEST_F(SpecScalePack, Scale6_NegativeControlMustBeFalse) {
  const ScalePack pack = ReadScalePack(pack_).value();
  EXPECT_EQ(pack.target.content.metadata.at("format"), "pt");
  EXPECT_TRUE(pack.target.content.metadata.contains("qsa_kv_scale_contract"));
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.metadata["negative_control"] = "true"; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"negative_control", "true"}));
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.metadata.erase("negative_control"); });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"negative_control", "missing"}));
}

TEST_F(SpecScalePack, Scale7_DraftFileIsCalibratedAndNamedForDrafters) {
  EXPECT_TRUE(fs::exists(pack_ / "model-bf16-kvscales-mtp.safetensors"));
  EditScaleFile(pack_, "draft_scale_file",
                [](ScaleFile& f) { f.metadata["source"] = "prototype:unit"; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"source", "prototype:unit"}));
  Restore();
  EditManifest(pack_, [](Json& j) { j["scale_file"]["filename"] = "model-bf16-x.safetensors"; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"scale_file.filename", "model-bf16-"}));
}

TEST_F(SpecScalePack, Scale8_SumsAreCompleteAndMatch) {
  test::WriteFile(pack_ / "extra.bin", "x");
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"extra.bin", "SHA256SUMS"}));
  fs::remove(pack_ / "extra.bin");
  test::WriteFile(pack_ / "README.md", "changed");
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"README.md", "SHA-256"}));
  test::WriteFile(pack_ / kSumsFile, std::string(64, 'a') + "  ../x\n");
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"SHA256SUMS", "line 1"}));
  fs::remove(pack_ / kSumsFile);
  EXPECT_TRUE(Refuses(Load(), Code::kNotFound, {"SHA256SUMS"}));
}

TEST_F(SpecScalePack, Scale9_LinksStayInThePack) {
  fs::rename(pack_ / kTargetScaleFile, dir_ / "outside");
  fs::create_symlink("../outside", pack_ / kTargetScaleFile);
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"model-kvscales.safetensors", "leaves the pack"}));
}

TEST_F(SpecScalePack, Scale10_ManifestIsStrict) {
  EditManifest(pack_, [](Json& j) { j["schema_version"] = true; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"kvscales-manifest.json", "schema_version"}));
  Restore();
  EditManifest(pack_, [](Json& j) { j["base_checkpoint"].erase("index_sha256"); });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"base_checkpoint.index_sha256"}));
  Restore();
  std::string text = test::Slurp(pack_ / kManifestFile);
  text.replace(text.find('{'), 1, R"({"artifact_id": "other",)");
  test::WriteFile(pack_ / kManifestFile, text);
  test::RewriteSums(pack_);
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"kvscales-manifest.json", "artifact_id"}));
}

TEST_F(SpecScalePack, Scale11_FileNamesArePlain) {
  for (const char* bad : {"../x.safetensors", "/x.safetensors", "model.safetensors.index.json"}) {
    EditManifest(pack_, [&](Json& j) { j["scale_file"]["filename"] = bad; });
    EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"scale_file.filename"})) << bad;
  }
}

TEST_F(SpecScalePack, Scale12_ScaleFileIsTheManifests) {
  EditManifest(pack_, [](Json& j) { j["scale_file"]["sha256"] = Sha256Hex("x"); });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"model-kvscales.safetensors", Sha256Hex("x")}));
  Restore();
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.scales.erase(kName); });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {kName}));
}

TEST_F(SpecScalePack, Scale13_ManifestValuesAreTheFiles) {
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.scales[kName] = 0.5f; });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {kName, "0.5"}));
  Restore();
  EditManifest(pack_, [](Json& j) { j["tensors"][0]["max_abs"] = 100.0; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"tensors[0].scale", "100"}));
  for (const char* const key : {"tensors", "draft_tensors"}) {
    Restore();
    EditManifest(pack_, [key](Json& j) { j[key] = Json::array(); });
    EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {key, "one entry per scale"}));
  }
}

TEST_F(SpecScalePack, Scale14_ExactlyTwoScalesPerLayer) {
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.scales.erase(kName); });
  EditManifest(pack_, [](Json& j) {
    Json& names = j["scale_file"]["tensor_names"];
    names.erase(std::find(names.begin(), names.end(), kName));
    j["scale_file"]["tensor_count"] = 5;
  });
  EXPECT_TRUE(Refuses(Load(), Code::kNotFound, {"1 of 6", kName, "kv8 calibrate"}));
}

TEST_F(SpecScalePack, Scale15_AnotherIndexIsRefused) {
  test::CopyTinyModel(dir_ / "other");
  test::EditIndex(dir_ / "other", [](Json& j) { j["note"] = 1; });
  const Checkpoint other = Checkpoint::Open(dir_ / "other").value();
  EXPECT_TRUE(Refuses(LoadKvScales(other, pack_, false), Code::kMismatch,
                      {TinyModel().index_sha256(), other.index_sha256(), "kv8 calibrate"}));
}

TEST_F(SpecScalePack, Scale16_OtherKvWeightsAreRefused) {
  EditManifest(pack_,
               [](Json& j) { j["base_checkpoint"]["kv_weights_sha256"] = Sha256Hex("tuned"); });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"K/V weights", Sha256Hex("tuned")}));
}

TEST_F(SpecScalePack, Scale17_PublishedPacksServeRunsWithoutSpeculation) {
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  const auto scales = Load(/*need_draft=*/false);
  ASSERT_TRUE(scales.ok());
  EXPECT_EQ(scales->lineage.weights, WeightsBinding::kUnbound);
}

TEST_F(SpecScalePack, Scale18_SpeculationNeedsDraftScales) {
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  EXPECT_TRUE(Refuses(Load(/*need_draft=*/true), Code::kNotFound,
                      {kDraftName, "mtp.layers.0.self_attn.v_scale", "kv8 calibrate",
                       "kv8 materialize --draft-report"}));
}

TEST_F(SpecScalePack, Scale19_DerivedValuesFollowFromMeasuredOnes) {
  const Json good = ReportToJson(test::MakeReport(TinyModel()));
  for (const char* key : {"scale", "p99_9_abs_upper_bound", "saturation_ratio", "max_abs"}) {
    Json bad = good;
    bad["tensors"]["model.layers.7.self_attn.k_scale"][key] = 0.75;
    EXPECT_TRUE(Refuses(ReportFromJson(bad, "r.json"), Code::kCorrupt,
                        {"r.json", "model.layers.7.self_attn.k_scale", key}));
  }
}

TEST_F(SpecScalePack, Scale20_MergingLeavesNoTraceOfOrder) {
  CalibrationReport a = test::MakeReport(TinyModel());
  CalibrationReport b = a;
  b.corpus_sha256 = {Sha256Hex("b")};
  SideStatistics& side = b.layers[0].k;
  side.max_abs *= 2;
  side.histogram = {};
  side.histogram.bins[LogHistogram::BinOf(side.max_abs)] = side.nonzero_count;
  side.shard_max_abs = {{"b", side.max_abs}};
  const auto ab = MergeReports({a, b}).value();
  EXPECT_EQ(ReportToJson(ab), ReportToJson(MergeReports({b, a}).value()));
  EXPECT_TRUE(ab.layers[0].k.saturation_is_upper_bound);
  EXPECT_FALSE(ab.layers[0].v.saturation_is_upper_bound);
}

TEST_F(SpecScalePack, Scale21_ZerosAreFineInShardsOnly) {
  CalibrationReport report = test::MakeReport(TinyModel());
  EXPECT_EQ(report.layers[0].k.shard_max_abs.at("silence"), 0.0f);
  EXPECT_TRUE(ReportFromJson(ReportToJson(report), "r").ok());
  report.layers[0].k.max_abs = 0;
  EXPECT_TRUE(Refuses(WritePack(report, TinyModel(), dir_ / "p", {}), Code::kInvalidArgument,
                      {"model.layers.3.self_attn.k_scale", "max_abs"}));
  report = test::MakeReport(TinyModel());
  report.layers[0].v.finite_count -= 1;
  EXPECT_TRUE(Refuses(WritePack(report, TinyModel(), dir_ / "p", {}), Code::kInvalidArgument,
                      {"model.layers.3.self_attn.v_scale", "not finite"}));
}

TEST_F(SpecScalePack, Scale22_ReportsOfOtherCheckpointsAreNotPacked) {
  CalibrationReport report = test::MakeReport(TinyModel());
  report.base.index_sha256 = Sha256Hex("other");
  EXPECT_TRUE(Refuses(WritePack(report, TinyModel(), dir_ / "p", {}), Code::kMismatch,
                      {Sha256Hex("other"), "kv8 calibrate"}));
  EXPECT_FALSE(fs::exists(dir_ / "p"));
}

TEST_F(SpecScalePack, Scale23_ViewsAreLinksAndTheBaseStays) {
  const std::string before = test::Snapshot(test::TinyModelDir());
  ASSERT_TRUE(MakeView().ok());
  EXPECT_EQ(test::Snapshot(test::TinyModelDir()), before);
  EXPECT_TRUE(fs::read_symlink(view_ / "config.json").is_relative());
  EXPECT_EQ(test::Slurp(view_ / kTargetScaleFile), test::Slurp(pack_ / kTargetScaleFile));
  EXPECT_TRUE(fs::exists(view_ / kProvenanceFile));
}

TEST_F(SpecScalePack, Scale24_MergedIndexGrowsByWholeFiles) {
  ASSERT_TRUE(MakeView().ok());
  const std::string text = test::Slurp(view_ / kIndexFile);
  const Json merged = Json::parse(text);
  const Json base = Json::parse(test::Slurp(test::TinyModelDir() / kIndexFile));
  EXPECT_EQ(text, merged.dump(2) + "\n");
  EXPECT_EQ(merged["metadata"]["total_size"].get<std::uint64_t>(),
            base["metadata"]["total_size"].get<std::uint64_t>() +
                fs::file_size(view_ / kTargetScaleFile) + fs::file_size(view_ / kDraftScaleFile));
}

TEST_F(SpecScalePack, Scale25_BadBasesAndOutputsAreRefused) {
  ASSERT_TRUE(MakeView().ok());
  EXPECT_TRUE(Refuses(MakeView(), Code::kAlreadyExists, {view_.string()}));
  EXPECT_TRUE(Refuses(Materialize({view_, pack_, dir_ / "second", {}, {}}), Code::kInvalidArgument,
                      {"model.layers.3.self_attn.k_scale", kDraftName}));
  EXPECT_TRUE(Refuses(Materialize({test::TinyModelDir(), pack_, pack_ / "in", {}, {}}),
                      Code::kInvalidArgument, {"inside"}));
}

TEST_F(SpecScalePack, Scale26_AKillLeavesNothingOrAll) {
  const auto work = [this](StepHook hook) {
    return Materialize({test::TinyModelDir(), pack_, view_, {}, std::move(hook)}).ok();
  };
  for (int step = 0; test::KilledAt(step, work); ++step) {
    if (!fs::exists(view_)) continue;
    EXPECT_TRUE(LoadView().ok()) << step;
    fs::remove_all(view_);
  }
  EXPECT_TRUE(LoadView().ok());
}

TEST_F(SpecScalePack, Scale27_ViewsGiveThePacksScalesOrNone) {
  ASSERT_TRUE(MakeView().ok());
  const KvScales packed = Load().value();
  const KvScales viewed = LoadView().value();
  for (std::size_t i = 0; i < packed.target.size(); ++i) {
    EXPECT_EQ(packed.target[i].k, viewed.target[i].k);
    EXPECT_EQ(packed.target[i].v, viewed.target[i].v);
  }
  EXPECT_EQ(packed.draft->k, viewed.draft->k);
  test::EditIndex(view_, [](Json& j) { j["note"] = 1; });
  EXPECT_TRUE(Refuses(LoadView(), Code::kMismatch, {"kvscales-provenance.json"}));
}

TEST_F(SpecScalePack, Scale28_SpellingsFoldToOne) {
  ScaleFile file = test::FullScaleSet();
  file.scales["model.language_model.layers.7.self_attn.k_proj.output_scale"] = 0.02f;
  EXPECT_TRUE(Refuses(LoadOwn(file), Code::kCorrupt, {"layers.7.self_attn.k_proj.output_scale"}));
  file.scales.erase(kName);
  EXPECT_EQ(LoadOwn(file)->target[1].k, 0.02f);
}

TEST_F(SpecScalePack, Scale29_OwnScalesMustBeWholeAndUnmarked) {
  ScaleFile file = test::FullScaleSet();
  EXPECT_TRUE(LoadOwn(file).ok());
  file.metadata = TargetMetadata();
  EXPECT_TRUE(Refuses(LoadOwn(file), Code::kNotFound, {"kvscales-provenance.json"}));
  file = test::FullScaleSet();
  file.scales.erase(kName);
  EXPECT_TRUE(Refuses(LoadOwn(file), Code::kNotFound, {kName}));
}

TEST_F(SpecScalePack, Scale30_OneSourceOfScalesOnly) {
  ASSERT_TRUE(MakeView().ok());
  EXPECT_TRUE(Refuses(LoadKvScales(Checkpoint::Open(view_).value(), pack_, false),
                      Code::kInvalidArgument, {"scales of its own"}));
}

}  // namespace
}  // namespace kv8
