#include <gtest/gtest.h>

#include "scalepack/calibration_report.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::MakeReport;
using test::Refuses;
using test::TinyModel;

constexpr const char* kTensor = "model.layers.7.self_attn.v_scale";

/// The error for the report after `edit`.
Result<CalibrationReport> ReadEdited(const std::function<void(Json&)>& edit) {
  Json json = ReportToJson(MakeReport(TinyModel()));
  edit(json);
  return ReportFromJson(json, "r.json");
}

Result<CalibrationReport> ReadWith(const char* key, Json value) {
  return ReadEdited([&](Json& json) { json[key] = std::move(value); });
}

Result<CalibrationReport> ReadTensorWith(const char* key, Json value) {
  return ReadEdited([&](Json& json) { json["tensors"][kTensor][key] = std::move(value); });
}

TEST(ReportJson, RoundTripsThroughText) {
  const CalibrationReport report = MakeReport(TinyModel());
  const test::TempDir dir;
  test::WriteFile(dir / "r.json", DumpJson(ReportToJson(report)));
  const auto read = ReadReport(dir / "r.json");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(ReportToJson(*read), ReportToJson(report));
  EXPECT_EQ(read->layers.size(), 4u);
  EXPECT_EQ(read->layers[1].v.max_abs, report.layers[1].v.max_abs);
  EXPECT_EQ(read->layers[1].v.histogram.bins, report.layers[1].v.histogram.bins);
}

TEST(ReportJson, HasTheKeysOfTheSystemsInUse) {
  const Json json = ReportToJson(MakeReport(TinyModel()));
  for (const char* key :
       {"schema_version", "converter_contract", "scale_method", "scale_storage", "e4m3_max",
        "saturation_definition", "histogram", "input_files", "excluded_corpus_shards", "records",
        "qsa_layer_ids", "tensor_count", "tensors"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["qsa_layer_ids"], Json({3, 7, 11, 12}));
  EXPECT_TRUE(json["tensors"].contains("model.layers.12.self_attn.k_scale"));  // the draft's
  for (const char* key :
       {"max_abs", "scale", "p99_9_abs_upper_bound", "p99_99_abs_upper_bound", "finite_count",
        "count", "nonzero_count", "saturation_ratio", "saturated_count", "shard_scales",
        "shard_scale_min_over_global", "shard_scale_max_over_global"}) {
    EXPECT_TRUE(json["tensors"][kTensor].contains(key)) << key;
  }
}

TEST(ReportJson, AShardOfZerosIsNoFailure) {
  const Json json = ReportToJson(MakeReport(TinyModel()));
  EXPECT_EQ(json["tensors"][kTensor]["shard_scales"]["silence"], 0.0);
  EXPECT_EQ(json["tensors"][kTensor]["shard_scale_min_over_global"], 0.0);
}

TEST(ReportJson, ASideOfZerosCanBeReported) {
  CalibrationReport report = MakeReport(TinyModel());
  report.layers[0].k = SideStatistics();
  report.layers[0].k.count = report.layers[0].k.finite_count = 10;
  const auto read = ReportFromJson(ReportToJson(report), "r.json");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->layers[0].k.max_abs, 0);
}

TEST(ReportJson, RefusesAnotherSchema) {
  EXPECT_TRUE(Refuses(ReadWith("schema_version", 2), Code::kCorrupt, {"schema_version", "2"}));
  EXPECT_TRUE(Refuses(ReadWith("schema_version", true), Code::kCorrupt, {"schema_version"}));
  EXPECT_TRUE(Refuses(ReadWith("e4m3_max", 240), Code::kCorrupt, {"e4m3_max", "240"}));
  EXPECT_TRUE(Refuses(ReadEdited([](Json& j) { j["histogram"]["bins"] = 2048; }), Code::kCorrupt,
                      {"histogram.bins", "2048"}));
}

TEST(ReportJson, RefusesAReportWithoutBinding) {
  EXPECT_TRUE(Refuses(ReadEdited([](Json& j) { j.erase("checkpoint"); }), Code::kCorrupt,
                      {"r.json", "checkpoint"}));
  EXPECT_TRUE(Refuses(ReadEdited([](Json& j) { j["checkpoint"]["index_sha256"] = "ab"; }),
                      Code::kCorrupt, {"checkpoint.index_sha256"}));
  EXPECT_TRUE(Refuses(ReadEdited([](Json& j) { j["checkpoint"].erase("kv_weights_sha256"); }),
                      Code::kCorrupt, {"checkpoint.kv_weights_sha256"}));
}

TEST(ReportJson, RefusesWrongLayerLists) {
  EXPECT_TRUE(Refuses(ReadWith("qsa_layer_ids", {3, 7, 7, 12}), Code::kCorrupt, {"qsa_layer_ids"}));
  EXPECT_TRUE(
      Refuses(ReadWith("qsa_layer_ids", {3, 7, 11, 13}), Code::kCorrupt, {"qsa_layer_ids", "12"}));
  EXPECT_TRUE(
      Refuses(ReadWith("qsa_layer_ids", {3, 7, 11, true}), Code::kCorrupt, {"qsa_layer_ids"}));
  EXPECT_TRUE(Refuses(ReadWith("qsa_layer_ids", {3, 7, 10, 12}), Code::kCorrupt,
                      {"model.layers.10.self_attn.k_scale"}));
  EXPECT_TRUE(Refuses(ReadWith("tensor_count", 6), Code::kCorrupt, {"tensor_count", "6", "8"}));
  EXPECT_TRUE(Refuses(ReadEdited([](Json& j) { j["tensors"].erase(kTensor); }), Code::kCorrupt,
                      {"tensor_count", "7"}));
}

TEST(ReportJson, RefusesCountsThatContradictEachOther) {
  EXPECT_TRUE(Refuses(ReadTensorWith("finite_count", 1001), Code::kCorrupt,
                      {kTensor, "finite_count", "1001", "1000"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("nonzero_count", 1001), Code::kCorrupt, {"nonzero_count"}));
  EXPECT_TRUE(
      Refuses(ReadTensorWith("nonzero_count", 989), Code::kCorrupt, {"histogram", "990", "989"}));
  EXPECT_TRUE(
      Refuses(ReadTensorWith("saturated_count", 1001), Code::kCorrupt, {"saturated_count"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("saturation_ratio", 0.5), Code::kCorrupt,
                      {"saturation_ratio", "0.5"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("count", -1), Code::kCorrupt, {"count"}));
}

TEST(ReportJson, RefusesAScaleThatDoesNotFollowFromItsMaximum) {
  EXPECT_TRUE(Refuses(ReadTensorWith("scale", 0.5), Code::kCorrupt, {kTensor, "scale", "0.5"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("scale", Json()), Code::kCorrupt, {"scale"}));
}

TEST(ReportJson, RefusesAMaximumThatTheHistogramDenies) {
  EXPECT_TRUE(Refuses(ReadTensorWith("max_abs", 100.0), Code::kCorrupt, {"max_abs", "100"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("max_abs", 0.0), Code::kCorrupt, {"max_abs"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("max_abs", -1.0), Code::kCorrupt, {"max_abs"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("max_abs", 0.1), Code::kCorrupt, {"max_abs", "FP32"}));
  EXPECT_TRUE(Refuses(ReadTensorWith("max_abs", 1e300), Code::kCorrupt, {"max_abs"}));
}

TEST(ReportJson, RefusesBrokenHistograms) {
  for (const Json& bad :
       {Json(3), Json({1}), Json::parse("[[1]]"), Json::parse("[[4096, 1]]"),
        Json::parse("[[-1, 1]]"), Json::parse("[[5, 0]]"), Json::parse("[[5, 1], [5, 1]]"),
        Json::parse("[[5, 1], [4, 1]]"), Json::parse("[[5, true]]"),
        Json::parse("[[1, 18446744073709551615], [2, 1]]")}) {
    EXPECT_TRUE(Refuses(ReadTensorWith("histogram", bad), Code::kCorrupt, {kTensor, "histogram"}))
        << bad;
  }
}

TEST(ReportJson, RefusesShardsThatContradictTheMaximum) {
  EXPECT_TRUE(Refuses(ReadTensorWith("shard_max_abs", {{"code", 100.0}}), Code::kCorrupt,
                      {"shard_max_abs", "100"}));
  EXPECT_TRUE(
      Refuses(ReadTensorWith("shard_scales", {{"code", 1.5}}), Code::kCorrupt, {"shard_scales"}));
}

TEST(ReadReport, NamesTheFile) {
  const test::TempDir dir;
  EXPECT_TRUE(Refuses(ReadReport(dir / "absent.json"), Code::kNotFound, {"absent.json"}));
  test::WriteFile(dir / "r.json", R"({"schema_version": 1, "schema_version": 1})");
  EXPECT_TRUE(Refuses(ReadReport(dir / "r.json"), Code::kCorrupt, {"r.json", "schema_version"}));
}

}  // namespace
}  // namespace kv8
