#include "scalepack/materialize.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "scalepack/kv_scales.h"
#include "scalepack/pack_writer.h"
#include "scalepack/scale_names.h"
#include "support/crash.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::Refuses;

class MaterializeTest : public ::testing::Test {
 protected:
  void SetUp() override { test::MakePack(pack_); }
  Result<MaterializeSummary> Make(StepHook hook = {}) {
    return Materialize({base_, pack_, view_, draft_report_, std::move(hook)});
  }
  /// True when the view can be used for everything it promises.
  bool ViewIsWhole() {
    const auto checkpoint = Checkpoint::Open(view_);
    return checkpoint.ok() && LoadKvScales(*checkpoint, std::nullopt, true).ok();
  }
  void WriteDraftReport(const CalibrationReport& report) {
    draft_report_ = dir_ / "report.json";
    test::WriteFile(*draft_report_, DumpJson(ReportToJson(report)));
  }
  test::TempDir dir_;
  fs::path base_ = test::TinyModelDir();
  fs::path pack_ = dir_ / "pack";
  fs::path view_ = dir_ / "view";
  std::optional<fs::path> draft_report_;
};

TEST_F(MaterializeTest, MakesAViewThatOpens) {
  const std::string before = test::Snapshot(base_);
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(made->target_scales, 6u);
  EXPECT_EQ(made->draft_scales, 2u);
  EXPECT_TRUE(ViewIsWhole());
  EXPECT_EQ(test::Snapshot(base_), before);
}

TEST_F(MaterializeTest, LinksAreRelativeAndCoverTheBase) {
  ASSERT_TRUE(Make().ok());
  for (const auto& entry : fs::directory_iterator(base_)) {
    const fs::path name = entry.path().filename();
    if (name == kIndexFile) continue;
    ASSERT_TRUE(fs::is_symlink(view_ / name)) << name;
    EXPECT_TRUE(fs::read_symlink(view_ / name).is_relative());
    EXPECT_TRUE(fs::equivalent(view_ / name, entry.path()));
  }
}

TEST_F(MaterializeTest, CopiesTheScaleFilesByteForByte) {
  ASSERT_TRUE(Make().ok());
  for (const auto name : {kTargetScaleFile, kDraftScaleFile}) {
    EXPECT_FALSE(fs::is_symlink(view_ / name));
    EXPECT_EQ(test::Slurp(view_ / name), test::Slurp(pack_ / name));
  }
}

TEST_F(MaterializeTest, MergesTheIndexAsPublished) {
  const auto made = Make().value();
  const std::string text = test::Slurp(view_ / kIndexFile);
  const Json merged = Json::parse(text);
  const Json base = Json::parse(test::Slurp(base_ / kIndexFile));
  EXPECT_EQ(text, merged.dump(2) + "\n");  // nlohmann keeps keys sorted
  EXPECT_EQ(made.merged_index_sha256, Sha256Hex(text));
  const auto added =
      fs::file_size(pack_ / kTargetScaleFile) + fs::file_size(pack_ / kDraftScaleFile);
  EXPECT_EQ(merged["metadata"]["total_size"],
            base["metadata"]["total_size"].get<std::uint64_t>() + added);
  EXPECT_EQ(merged["weight_map"].size(), base["weight_map"].size() + 8);
  EXPECT_EQ(merged["weight_map"]["mtp.layers.0.self_attn.k_scale"], kDraftScaleFile);
  EXPECT_EQ(merged["weight_map"]["model.language_model.layers.3.self_attn.k_scale"],
            kTargetScaleFile);
}

TEST_F(MaterializeTest, WritesTheProvenanceKeysInUse) {
  const auto made = Make().value();
  const Json json = Json::parse(test::Slurp(view_ / kProvenanceFile));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["base_checkpoint"], fs::canonical(base_).string());
  EXPECT_EQ(json["base_index_sha256"], test::TinyModel().index_sha256());
  EXPECT_EQ(json["scale_pack_manifest_sha256"], Sha256Hex(test::Slurp(pack_ / kManifestFile)));
  EXPECT_EQ(json["merged_index_sha256"], made.merged_index_sha256);
  EXPECT_EQ(json["target_scale_file_sha256"], Sha256Hex(test::Slurp(view_ / kTargetScaleFile)));
  EXPECT_EQ(json["target_scale_source"], "published");
  EXPECT_EQ(json["target_tensor_count"], 6);
  EXPECT_EQ(json["mtp_scale_file_sha256"], Sha256Hex(test::Slurp(view_ / kDraftScaleFile)));
  EXPECT_EQ(json["mtp_scale_source"], "calibrated");
  EXPECT_EQ(json["mtp_tensor_count"], 2);
  EXPECT_TRUE(json["mtp_report"].is_null());
}

TEST_F(MaterializeTest, ATargetOnlyPackMakesAViewWithoutSpeculation) {
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  ASSERT_TRUE(Make().ok());
  const Checkpoint checkpoint = Checkpoint::Open(view_).value();
  EXPECT_TRUE(LoadKvScales(checkpoint, std::nullopt, false).ok());
  EXPECT_TRUE(Refuses(LoadKvScales(checkpoint, std::nullopt, true), Code::kNotFound,
                      {"mtp.layers.0.self_attn.k_scale", "--draft-report"}));
}

TEST_F(MaterializeTest, ADraftReportSuppliesTheDraft) {
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  WriteDraftReport(test::MakeReport(test::TinyModel()));
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const Checkpoint checkpoint = Checkpoint::Open(view_).value();
  EXPECT_EQ(LoadKvScales(checkpoint, std::nullopt, true)->draft->k, ScaleForMaxAbs(11.0f));
  const Json json = Json::parse(test::Slurp(view_ / kProvenanceFile));
  EXPECT_EQ(json["mtp_report_sha256"], Sha256Hex(test::Slurp(*draft_report_)));
}

TEST_F(MaterializeTest, RefusesADraftReportThatDoesNotFit) {
  WriteDraftReport(test::MakeReport(test::TinyModel()));
  EXPECT_TRUE(Refuses(Make(), Code::kInvalidArgument, {"report.json", "already has draft"}));
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  WriteDraftReport(test::MakeReport(test::TinyModel(), /*with_draft=*/false));
  EXPECT_TRUE(Refuses(Make(), Code::kNotFound, {"model.layers.12.self_attn.k_scale"}));
  CalibrationReport other = test::MakeReport(test::TinyModel());
  other.base.kv_weights_sha256 = std::string(64, 'f');
  WriteDraftReport(other);
  EXPECT_TRUE(Refuses(Make(), Code::kMismatch, {"K/V weights", "kv8 calibrate"}));
  EXPECT_FALSE(fs::exists(view_));
}

TEST_F(MaterializeTest, RefusesABaseThatIsAView) {
  ASSERT_TRUE(Make().ok());
  base_ = view_;
  view_ = dir_ / "second";
  EXPECT_TRUE(Refuses(
      Make(), Code::kInvalidArgument,
      {"model.layers.3.self_attn.k_scale", "mtp.layers.0.self_attn.v_scale", "base checkpoint"}));
}

TEST_F(MaterializeTest, RefusesOutputsThatExistOrLieInside) {
  const fs::path home = dir_ / "model";
  test::CopyTinyModel(home);
  const std::string before = test::Snapshot(home);
  base_ = home;
  view_ = home;
  EXPECT_TRUE(Refuses(Make(), Code::kAlreadyExists, {home.string()}));
  view_ = home / "deep" / "view";
  EXPECT_TRUE(Refuses(Make(), Code::kInvalidArgument, {"inside", home.string()}));
  fs::create_directory_symlink(home, dir_ / "alias");
  view_ = dir_ / "alias" / "view";
  EXPECT_TRUE(Refuses(Make(), Code::kInvalidArgument, {"inside", home.string()}));
  view_ = pack_ / "view";
  EXPECT_TRUE(Refuses(Make(), Code::kInvalidArgument, {"inside", pack_.string()}));
  view_ = dir_ / "dangling";
  fs::create_symlink("nowhere", view_);
  EXPECT_TRUE(Refuses(Make(), Code::kAlreadyExists, {"dangling"}));
  EXPECT_EQ(test::Snapshot(home), before);
}

TEST_F(MaterializeTest, RefusesABaseWithAMissingShard) {
  base_ = dir_ / "model";
  test::CopyTinyModel(base_);
  fs::remove(base_ / "model-00002-of-00005.safetensors");
  fs::create_symlink("nowhere", base_ / "model-00002-of-00005.safetensors");
  EXPECT_TRUE(Refuses(Make(), Code::kNotFound, {"model-00002-of-00005.safetensors"}));
  EXPECT_FALSE(fs::exists(view_));
}

TEST_F(MaterializeTest, RefusesAScaleFileThatWouldHideAShard) {
  const std::string shard = "model-00002-of-00005.safetensors";
  fs::rename(pack_ / kTargetScaleFile, pack_ / shard);
  test::EditManifest(pack_, [&](Json& j) { j["scale_file"]["filename"] = shard; });
  EXPECT_TRUE(Refuses(Make(), Code::kAlreadyExists, {shard, "hidden"}));
}

TEST_F(MaterializeTest, RefusesTheWrongBase) {
  base_ = dir_ / "model";
  test::CopyTinyModel(base_);
  test::EditIndex(base_, [](Json& j) { j["note"] = 1; });
  EXPECT_TRUE(Refuses(Make(), Code::kMismatch, {"kvscales-manifest.json"}));
  EXPECT_FALSE(fs::exists(view_));
}

TEST_F(MaterializeTest, TakesABaseIndexWithNullMetadata) {
  base_ = dir_ / "model";
  test::CopyTinyModel(base_);
  test::EditIndex(base_, [](Json& j) { j["metadata"] = nullptr; });
  const Checkpoint base = Checkpoint::Open(base_).value();
  fs::remove_all(pack_);
  ASSERT_TRUE(WritePack(test::MakeReport(base), base, pack_, {}).ok());
  ASSERT_TRUE(Make().ok());
  EXPECT_TRUE(ViewIsWhole());
}

TEST_F(MaterializeTest, AFailureAtAnyStepLeavesNothing) {
  int step = 0;
  for (; !Make(test::FailAt(step)).ok(); ++step) {
    if (fs::exists(view_)) break;  // the last step comes after the rename
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 1) << step;  // the pack
  }
  EXPECT_GE(step, 15);  // eleven links, four files, sync, rename
  EXPECT_TRUE(ViewIsWhole());
}

TEST_F(MaterializeTest, AKillAtAnyStepLeavesNothingOrAll) {
  const std::string before = test::Snapshot(base_);
  int step = 0;
  while (test::KilledAt(step, [this](StepHook hook) { return Make(std::move(hook)).ok(); })) {
    if (fs::exists(view_)) {
      EXPECT_TRUE(ViewIsWhole()) << step;
      fs::remove_all(view_);
    }
    ++step;
  }
  EXPECT_GE(step, 15);
  EXPECT_TRUE(ViewIsWhole());  // the last run met every leftover and ended well
  EXPECT_EQ(test::Snapshot(base_), before);
}

TEST_F(MaterializeTest, AFullDiskLeavesNothing) {
  const bool refused = test::WithFileLimit(1000, [this] {
    const auto made = Make();
    return !made.ok() && made.error().code == Code::kIo;
  });
  EXPECT_TRUE(refused);
  EXPECT_FALSE(fs::exists(view_));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 1);
}

}  // namespace
}  // namespace kv8
