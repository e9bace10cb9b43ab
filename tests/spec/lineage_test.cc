// docs/spec/scale-pack.md, "The very checkpoint", statement by statement.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/sha256.h"
#include "scalepack/kv_scales.h"
#include "scalepack/materialize.h"
#include "scalepack/scale_names.h"
#include "support/pack_test.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::EditManifest;
using test::EditScaleFile;
using test::Refuses;
using test::TinyModel;

constexpr const char* kLayer7Key = "model.language_model.layers.7.self_attn.k_scale";

class SpecLineage : public test::PackTest {};

/// One tensor of every part of the model, none of which makes K or V.
constexpr const char* kOtherTensors[] = {
    "model.embed_tokens.weight",
    "lm_head.weight",
    "model.layers.0.mlp.experts.down_proj",
    "model.layers.0.linear_attn.out_proj.weight",
    "model.layers.3.attn_hyper_connection.input_mix_weight_up.weight",
    "mtp.layers.0.mlp.gate.weight"};

TEST_F(SpecLineage, Scale31_AnyOtherWeightIsRefused) {
  ASSERT_TRUE(MakeView().ok());
  for (const char* tensor : kOtherTensors) {
    const fs::path model = dir_ / fmt::format("tuned{}", copies_++);
    test::CopyTunedModel(model, tensor);
    const Checkpoint tuned = Checkpoint::Open(model).value();
    ASSERT_EQ(tuned.KvWeightsSha256(), TinyModel().KvWeightsSha256());
    EXPECT_TRUE(Refuses(LoadKvScales(tuned, pack_, false), Code::kMismatch,
                        {"SHA-256 of all weights", "kv8 calibrate", "--accept-lineage"}))
        << tensor;
    // The view follows its links: its base changes under it.
    const fs::path shard = TinyModel().FileOf(tensor).filename();
    const fs::path target = fs::read_symlink(view_ / shard);
    fs::remove(view_ / shard);
    fs::create_symlink(model / shard, view_ / shard);
    EXPECT_TRUE(Refuses(LoadView(), Code::kMismatch, {"SHA-256 of all weights", "kv8 materialize"}))
        << tensor;
    fs::remove(view_ / shard);
    fs::create_symlink(target, view_ / shard);
  }
  EXPECT_TRUE(LoadView().ok());
}

TEST_F(SpecLineage, Scale31_AnyOtherConfigurationIsRefused) {
  const Json config = Json::parse(test::Slurp(test::TinyModelDir() / "config.json"));
  // Each of these runs, with other values than those that were measured.
  const std::vector<std::pair<const char*, Json>> others = {
      {"rms_norm_eps", 1e-3},
      {"rope_theta", 1000000.0},
      {"num_experts_per_tok", 2},
      {"indexer_budget", config["text_config"]["indexer_budget"].get<int>() / 2},
      {"max_position_embeddings", 4096},
      {"mtp", Json{{"rope_theta", 5e5}}}};
  for (const auto& [key, value] : others) {
    const fs::path model = dir_ / fmt::format("config{}", copies_++);
    test::CopyModelWithConfig(model, key, value);
    EXPECT_TRUE(Refuses(LoadKvScales(Checkpoint::Open(model).value(), pack_, false),
                        Code::kMismatch, {fmt::format("config.json: {}", key)}))
        << key;
  }
  test::CopyModelWithConfig(dir_ / "same", "transformers_version", "9");  // read by nobody here
  EXPECT_TRUE(LoadKvScales(Checkpoint::Open(dir_ / "same").value(), pack_, false).ok());
}

TEST_F(SpecLineage, Scale31_EveryKeyThatIsReadIsBound) {
  const Json fields = TinyModel().config_fields();
  const Json text = Json::parse(test::Slurp(test::TinyModelDir() / "config.json"))["text_config"];
  // Values that no code of the forward pass has a use for.
  const std::set<std::string> unread = {"dtype",
                                        "attention_dropout",
                                        "bos_token_id",
                                        "pad_token_id",
                                        "router_aux_loss_coef",
                                        "output_router_logits",
                                        "initializer_range",
                                        "use_cache"};
  for (const auto& [key, value] : text.items()) {
    if (value.is_object() || value.is_null() || unread.contains(key)) continue;
    if (key == "full_attention_interval") continue;  // layer_types says it all
    EXPECT_EQ(fields.value(key, Json()), value) << key;
  }
  EXPECT_EQ(fields["rope_parameters.rope_theta"], text["rope_parameters"]["rope_theta"]);
}

TEST_F(SpecLineage, Scale32_TheHashIsTheTreeOfTheShards) {
  std::string lines;
  for (const SafetensorsFile& file : TinyModel().files()) {
    // Each shard of the bundled model is shorter than a leaf.
    ASSERT_LT(file.bytes().size(), kHashLeafBytes);
    const std::string leaf = *Sha256File(file.path());
    const std::string shard = Sha256Hex(fmt::format("{}\n{}\n", file.bytes().size(), leaf));
    lines += fmt::format("{}  {}\n", shard, file.path().filename().string());
  }
  const Json manifest = Json::parse(test::Slurp(pack_ / kManifestFile));
  EXPECT_EQ(manifest["base_checkpoint"]["weights_sha256"], Sha256Hex(lines));
  EXPECT_EQ(manifest["base_checkpoint"]["config"], TinyModel().config_fields());
}

/// The draft head of another fine-tune: K and V are made of the same bytes.
TEST_F(SpecLineage, Ckpt11_OverlaysArePartOfTheCheckpoint) {
  test::CopyTunedModel(dir_ / "tuned", "mtp.layers.0.mlp.gate.weight");
  const std::vector<fs::path> once = {dir_ / "tuned"}, twice = {dir_ / "tuned", dir_ / "tuned"};
  const Checkpoint composed = Checkpoint::Open(test::TinyModelDir(), once).value();
  EXPECT_EQ(composed.KvWeightsSha256(), TinyModel().KvWeightsSha256());
  EXPECT_TRUE(Refuses(LoadKvScales(composed, pack_, false), Code::kMismatch,
                      {"SHA-256 of model.safetensors.index.json", composed.index_sha256()}));
  std::set<std::string> indices, weights;
  for (const auto& overlays : {std::vector<fs::path>(), once, twice}) {
    const Checkpoint checkpoint = Checkpoint::Open(test::TinyModelDir(), overlays).value();
    indices.insert(checkpoint.index_sha256());
    weights.insert(LineageOf(checkpoint, {})->weights_sha256);
  }
  EXPECT_EQ(indices.size(), 3u);
  EXPECT_EQ(weights.size(), 3u);
  std::string lines;
  for (const fs::path& part : {test::TinyModelDir(), dir_ / "tuned"}) {
    lines += LineageOf(Checkpoint::Open(part).value(), {})->weights_sha256 + "\n";
  }
  EXPECT_EQ(LineageOf(composed, {})->weights_sha256, Sha256Hex(lines));
}

TEST_F(SpecLineage, Scale34_AnotherLineageRunsOnlyWhereItIsAccepted) {
  test::CopyModelWithConfig(dir_ / "other", "rms_norm_eps", 1e-5);
  const Checkpoint other = Checkpoint::Open(dir_ / "other").value();
  ASSERT_FALSE(LoadKvScales(other, pack_, true).ok());
  const LineageOptions accept{.accept = true, .hash = {}};
  const std::vector<std::string> differs = {"config.json: rms_norm_eps"};
  EXPECT_EQ(LoadKvScales(other, pack_, true, accept)->lineage.accepted, differs);
  EXPECT_TRUE(LoadKvScales(TinyModel(), pack_, true, accept)->lineage.accepted.empty());

  ASSERT_TRUE(Materialize({dir_ / "other", pack_, view_, {}, {}, accept}).ok());
  EXPECT_EQ(Json::parse(test::Slurp(view_ / kProvenanceFile))["accepted_lineage"], Json(differs));
  EXPECT_EQ(LoadView()->lineage.accepted, differs);  // bound to that base, and it says so
  // What the scales are is never a matter of lineage.
  EditScaleFile(pack_, "scale_file", [](ScaleFile& f) { f.scales[kLayer7Key] = 1.0f; });
  EXPECT_FALSE(LoadKvScales(other, pack_, true, accept).ok());
}

TEST_F(SpecLineage, Scale36_ScalesAreWithinWhatTheWeightsCanGive) {
  // Without the list of maxima nothing else in a pack contradicts such a scale.
  const auto edit = [&](const char* name, float value) {
    EditScaleFile(pack_, "scale_file", [&](ScaleFile& f) { f.scales[name] = value; });
    EditManifest(pack_, [](Json& j) { j.erase("tensors"); });
  };
  for (const float bad : {3e38f, 1000.0f, 0.031f}) {  // the bound of layer 7's K is 0.0308
    edit(kLayer7Key, bad);
    EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {kLayer7Key, "cannot give more"})) << bad;
    ScaleFile own = test::FullScaleSet();
    own.scales[kLayer7Key] = bad;
    EXPECT_TRUE(
        Refuses(LoadOwn(own), Code::kMismatch, {"layers.7.self_attn.k_scale", "cannot give more"}))
        << bad;
    Restore();
  }
  edit(kLayer7Key, 0.0305f);
  EXPECT_TRUE(Load().ok());
  Restore();
  const std::string value = "model.language_model.layers.7.self_attn.v_scale";
  edit(value.c_str(), 0.0175f);  // 0.01694
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {value, "cannot give more"}));
}

TEST_F(SpecLineage, Scale37_WhatAnOlderVersionBoundIsRefused) {
  ASSERT_TRUE(MakeView().ok());
  const auto forget = [](Json& j) {
    j.erase("weights_sha256");
    j.erase("config");
  };
  EditManifest(pack_, [&](Json& j) { forget(j["base_checkpoint"]); });
  EXPECT_TRUE(Refuses(Load(), Code::kMismatch, {"older kv8", "kv8 calibrate"}));
  Json provenance = Json::parse(test::Slurp(view_ / kProvenanceFile));
  forget(provenance);
  test::WriteFile(view_ / kProvenanceFile, provenance.dump());
  EXPECT_TRUE(Refuses(LoadView(), Code::kMismatch, {"older kv8", "kv8 materialize"}));
  Json report = ReportToJson(test::MakeReport(TinyModel()));
  forget(report["checkpoint"]);
  EXPECT_TRUE(Refuses(ReportFromJson(report, "r.json"), Code::kCorrupt,
                      {"weights_sha256", "older kv8", "kv8 calibrate"}));
}

TEST_F(SpecLineage, Scale35_ARunSaysHowTheWeightsWereCompared) {
  ::setenv("XDG_CACHE_HOME", (dir_ / "cache").c_str(), 1);
  const LineageOptions trust{.accept = false, .hash = {.recorded_only = true}};
  EXPECT_EQ(LoadKvScales(TinyModel(), pack_, true, trust)->lineage.weights,
            WeightsBinding::kTrusted);
  EXPECT_EQ(Load()->lineage.weights, WeightsBinding::kChecked);
  fs::remove_all(pack_);
  test::MakePublishedPack(pack_);
  EXPECT_EQ(LoadKvScales(TinyModel(), pack_, false)->lineage.weights, WeightsBinding::kUnbound);
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace kv8
