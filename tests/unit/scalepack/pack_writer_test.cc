#include "scalepack/pack_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/sha256.h"
#include "scalepack/scale_pack.h"
#include "support/crash.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::MakeReport;
using test::Refuses;
using test::TinyModel;

class WritePackTest : public ::testing::Test {
 protected:
  Result<PackSummary> Write(const CalibrationReport& report, PackOptions options = {}) {
    return WritePack(report, TinyModel(), dir_ / "pack", options);
  }
  Result<PackSummary> WriteEdited(const std::function<void(CalibrationReport&)>& edit) {
    CalibrationReport report = MakeReport(TinyModel());
    edit(report);
    return Write(report);
  }
  test::TempDir dir_;
};

TEST_F(WritePackTest, WritesTargetAndDraft) {
  const auto written = Write(MakeReport(TinyModel()), {.repo_id = "owner/tiny", .hook = {}});
  ASSERT_TRUE(written.ok()) << written.error().ToString();
  EXPECT_EQ(written->target_scales, 6u);
  EXPECT_EQ(written->draft_scales, 2u);
  const auto pack = ReadScalePack(dir_ / "pack");
  ASSERT_TRUE(pack.ok()) << pack.error().ToString();
  EXPECT_EQ(pack->manifest.repo_id, "owner/tiny");
  EXPECT_EQ(pack->manifest.artifact_id, written->artifact_id);
  EXPECT_EQ(pack->target.content.scales.at("model.language_model.layers.7.self_attn.k_scale"),
            ScaleForMaxAbs(9.75f));
  EXPECT_EQ(pack->draft->content.scales.at("mtp.layers.0.self_attn.v_scale"),
            ScaleForMaxAbs(1.75f));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "pack"), {}), 5);
}

TEST_F(WritePackTest, ACheckpointHasTheNameOfItsDirectory) {
  test::CopyTinyModel(dir_ / "tiny");
  int count = 0;
  for (const char* const spelling : {"tiny", "tiny/", "tiny/.", "tiny/../tiny//"}) {
    const Checkpoint checkpoint = Checkpoint::Open(dir_ / spelling).value();
    const fs::path pack = dir_ / ("pack" + std::to_string(count++));
    ASSERT_TRUE(WritePack(MakeReport(checkpoint), checkpoint, pack, {}).ok());
    EXPECT_EQ(ReadScalePack(pack)->manifest.repo_id, "tiny") << spelling;
  }
}

TEST_F(WritePackTest, WithoutDraftLayerWritesTheTargetAlone) {
  const auto written = Write(MakeReport(TinyModel(), /*with_draft=*/false));
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->draft_scales, 0u);
  EXPECT_FALSE(ReadScalePack(dir_ / "pack")->draft.has_value());
}

TEST_F(WritePackTest, TheSameReportGivesTheSameBytes) {
  ASSERT_TRUE(Write(MakeReport(TinyModel())).ok());
  ASSERT_TRUE(WritePack(MakeReport(TinyModel()), TinyModel(), dir_ / "again", {}).ok());
  EXPECT_EQ(test::Snapshot(dir_ / "pack"), test::Snapshot(dir_ / "again"));
}

TEST_F(WritePackTest, TheReadmeSaysWhatItIsAndHowToUseIt) {
  ASSERT_TRUE(Write(MakeReport(TinyModel())).ok());
  const std::string readme = test::Slurp(dir_ / "pack/README.md");
  for (const std::string& part : {std::string("--scale-pack"), std::string("kv8 materialize"),
                                  std::string("sha256sum -c"), TinyModel().index_sha256()}) {
    EXPECT_NE(readme.find(part), std::string::npos) << part;
  }
}

TEST_F(WritePackTest, RefusesAReportOfAnotherCheckpoint) {
  const std::string other = Sha256Hex("other");
  EXPECT_TRUE(Refuses(WriteEdited([&](auto& r) { r.base.index_sha256 = other; }), Code::kMismatch,
                      {other, TinyModel().index_sha256(), "kv8 calibrate"}));
  EXPECT_TRUE(Refuses(WriteEdited([&](auto& r) { r.base.kv_weights_sha256 = other; }),
                      Code::kMismatch, {"K/V weights", other}));
  EXPECT_TRUE(Refuses(WriteEdited([](auto& r) { r.layer_prefix = "model.layers."; }),
                      Code::kMismatch, {"layer prefix"}));
  EXPECT_TRUE(
      Refuses(WriteEdited([](auto& r) { r.target_layers = 13; }), Code::kMismatch, {"13", "12"}));
}

TEST_F(WritePackTest, RefusesMissingAndForeignLayers) {
  EXPECT_TRUE(Refuses(WriteEdited([](auto& r) { r.layers.erase(r.layers.begin() + 1); }),
                      Code::kNotFound, {"model.layers.7.self_attn.k_scale", "kv8 calibrate"}));
  EXPECT_TRUE(
      Refuses(WriteEdited([](auto& r) { r.layers[1].layer = 6; }), Code::kMismatch, {"layer 6"}));
}

TEST_F(WritePackTest, RefusesSidesThatGiveNoScale) {
  const char* name = "model.layers.7.self_attn.v_scale";
  for (const float bad : {0.0f, -1.0f, static_cast<float>(NAN), static_cast<float>(INFINITY)}) {
    EXPECT_TRUE(Refuses(WriteEdited([&](auto& r) { r.layers[1].v.max_abs = bad; }),
                        Code::kInvalidArgument, {name, "max_abs"}))
        << bad;
  }
  EXPECT_TRUE(Refuses(WriteEdited([](auto& r) { r.layers[1].v.finite_count -= 3; }),
                      Code::kInvalidArgument, {name, "3 of 1000"}));
  EXPECT_TRUE(Refuses(WriteEdited([](auto& r) { r.layers[3].k.max_abs = 0; }),
                      Code::kInvalidArgument, {"model.layers.12.self_attn.k_scale"}));
}

TEST_F(WritePackTest, RefusesAMaximumThatTheWeightsCannotGive) {
  EXPECT_TRUE(Refuses(WriteEdited([](auto& r) { r.layers[0].k.max_abs = 448; }), Code::kMismatch,
                      {"layers.3.self_attn.k_scale", "cannot give more"}));
}

TEST_F(WritePackTest, RefusesACheckpointThatHasScales) {
  test::CopyTinyModel(dir_ / "model");
  test::AddShard(
      dir_ / "model", "extra.safetensors",
      {.scales = {{"model.language_model.layers.3.self_attn.k_scale", 0.5f}}, .metadata = {}});
  const Checkpoint checkpoint = Checkpoint::Open(dir_ / "model").value();
  EXPECT_TRUE(Refuses(WritePack(MakeReport(checkpoint), checkpoint, dir_ / "pack", {}),
                      Code::kInvalidArgument, {"model.layers.3.self_attn.k_scale", "base"}));
}

TEST_F(WritePackTest, RefusesAnOutputThatExists) {
  fs::create_directory(dir_ / "pack");
  EXPECT_TRUE(Refuses(Write(MakeReport(TinyModel())), Code::kAlreadyExists, {"pack"}));
  EXPECT_TRUE(fs::is_empty(dir_ / "pack"));
}

TEST_F(WritePackTest, AFullDiskLeavesNothing) {
  const bool refused = test::WithFileLimit(100, [this] {
    const auto written = Write(MakeReport(TinyModel()));
    return !written.ok() && written.error().code == Code::kIo;
  });
  EXPECT_TRUE(refused);
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(WritePackTest, AFailureAtAnyStepLeavesNothing) {
  int step = 0;
  for (; !Write(MakeReport(TinyModel()), {.repo_id = {}, .hook = test::FailAt(step)}).ok();
       ++step) {
    if (fs::exists(dir_ / "pack")) break;  // the last step comes after the rename
    EXPECT_TRUE(fs::is_empty(dir_.path())) << step;
  }
  EXPECT_GE(step, 7);  // five files, sync, rename
  EXPECT_TRUE(ReadScalePack(dir_ / "pack").ok());
}

}  // namespace
}  // namespace kv8
