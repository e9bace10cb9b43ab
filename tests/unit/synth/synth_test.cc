#include "synth/synth.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "family/checkpoint.h"
#include "support/or_throw.h"
#include "support/refuses.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTiny = KV8_SOURCE_DIR "/models/tiny-qwen4exp";

constexpr StoredFormat kFp8{WeightFormat::kFp8};
constexpr StoredFormat kNvfp4{WeightFormat::kNvfp4};
constexpr StoredFormat kInt4{WeightFormat::kInt4, 32, false};

/// A small one: 4 layers of the bundled dimensions.
SynthRequest Request(const fs::path& output, StoredFormat experts = {}) {
  return {.output = output,
          .dimensions = {.layers = 4},
          .formats = PublishedWith(experts),
          .seed = 3,
          .threads = 2};
}

/// "TYPE [shape] bytes" by tensor, of all files of a checkpoint.
std::map<std::string, std::string> Contents(const fs::path& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = test::OrThrow(SafetensorsFile::Open(entry.path()));
    for (const auto& [name, view] : file.content().tensors) {
      out[name] = std::string(Name(view.dtype)) + " " + ShapeText(view.shape) + " " +
                  std::string(reinterpret_cast<const char*>(view.data),
                              static_cast<std::size_t>(view.bytes()));
    }
  }
  return out;
}

/// The same without the bytes.
std::string KindOf(const std::map<std::string, std::string>& contents, const std::string& name) {
  const auto found = contents.find(name);
  return found == contents.end() ? "" : found->second.substr(0, found->second.find(']') + 1);
}

TEST(Synthesise, BytesDependOnNeitherThreadsNorShards) {
  const test::TempDir dir;
  SynthRequest one = Request(dir / "one", kNvfp4), many = Request(dir / "many", kNvfp4);
  one.threads = 1;
  many.threads = 3;
  many.shard_bytes = 500'000;
  test::OrThrow(Synthesise(one));
  const SynthSummary summary = test::OrThrow(Synthesise(many));
  EXPECT_GT(summary.files, 10);
  EXPECT_EQ(Contents(dir / "one"), Contents(dir / "many"));
  EXPECT_EQ(test::Slurp(dir / "one/config.json"), test::Slurp(dir / "many/config.json"));
}

TEST(Synthesise, APlainCheckpointOpens) {
  const test::TempDir dir;
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp16}) {
    const fs::path out = dir / Name(format);
    const SynthSummary summary = test::OrThrow(Synthesise(Request(out, {format})));
    const Checkpoint checkpoint = test::OrThrow(Checkpoint::Open(out));
    EXPECT_EQ(checkpoint.config().layer_count(), 4);
    EXPECT_EQ(static_cast<std::int64_t>(checkpoint.tensors().size()), summary.tensors);
    EXPECT_EQ(checkpoint.Find("lm_head.weight")->dtype,
              format == WeightFormat::kBf16 ? DType::kBF16 : DType::kF16);
  }
}

TEST(Synthesise, RequantisedAsItWasEqualsItsSource) {
  const test::TempDir dir;
  SynthRequest request{.output = dir / "out", .from = kTiny};
  test::OrThrow(Synthesise(request));
  EXPECT_EQ(Contents(dir / "out"), Contents(kTiny));
  EXPECT_EQ(test::Slurp(dir / "out/tokenizer.json"),
            test::Slurp(fs::path(kTiny) / "tokenizer.json"));
}

TEST(Synthesise, RandomWeightsOfAllFormatsAreThoseOfOneModel) {
  const test::TempDir dir;
  test::OrThrow(Synthesise(Request(dir / "bf16")));
  for (const StoredFormat& format : {kFp8, kNvfp4, kInt4}) {
    const std::string name = Name(format.format);
    SynthRequest direct = Request(dir / (name + "-direct"), format);
    // A table's scale is the bound of random values, and the magnitude of stored ones.
    direct.formats.table = WeightFormat::kBf16;
    SynthRequest by_way = direct;
    by_way.output = dir / (name + "-by-way");
    by_way.from = dir / "bf16";
    test::OrThrow(Synthesise(direct));
    test::OrThrow(Synthesise(by_way));
    EXPECT_EQ(Contents(direct.output), Contents(by_way.output)) << name;
  }
}

TEST(Synthesise, WritesTheLayoutsOfThePublishers) {
  const test::TempDir dir;
  const std::string expert = "model.language_model.layers.2.mlp.experts.15.";
  const std::string table = "model.language_model.layers.1.ple.ple_embedding.ngram_embedding.";
  const auto written = [&](StoredFormat format) {
    const fs::path out = dir / Name(format.format);
    test::OrThrow(Synthesise(Request(out, format)));
    return Contents(out);
  };
  const auto fp8 = written(kFp8);
  EXPECT_EQ(KindOf(fp8, expert + "gate_proj.weight"), "F8_E4M3 [64, 192]");
  EXPECT_EQ(KindOf(fp8, expert + "gate_proj.weight_scale_inv"), "BF16 [1, 2]");
  EXPECT_EQ(KindOf(fp8, expert + "down_proj.weight_scale_inv"), "BF16 [2, 1]");
  EXPECT_EQ(KindOf(fp8, "mtp.layers.0.mlp.experts.0.up_proj.weight"), "F8_E4M3 [64, 192]");
  EXPECT_EQ(KindOf(fp8, table + "shard_3.weight"), "F8_E4M3 [8064, 24]");
  EXPECT_EQ(KindOf(fp8, table + "weight_scale"), "BF16 [1]");
  const auto nvfp4 = written(kNvfp4);
  EXPECT_EQ(KindOf(nvfp4, expert + "down_proj.weight"), "U8 [192, 32]");
  EXPECT_EQ(KindOf(nvfp4, expert + "down_proj.weight_scale"), "F8_E4M3 [192, 4]");
  EXPECT_EQ(KindOf(nvfp4, expert + "down_proj.weight_scale_2"), "F32 []");
  EXPECT_EQ(KindOf(nvfp4, expert + "down_proj.input_scale"), "F32 []");
  EXPECT_EQ(nvfp4.at(expert + "gate_proj.weight_scale_2"),
            nvfp4.at(expert + "up_proj.weight_scale_2"));
  EXPECT_EQ(KindOf(nvfp4, "mtp.layers.0.mlp.experts.gate_up_proj"), "BF16 [16, 128, 192]");
  EXPECT_EQ(KindOf(nvfp4, "model.language_model.layers.2.mlp.experts.gate_up_proj"), "");
  const auto int4 = written(kInt4);
  EXPECT_EQ(KindOf(int4, expert + "up_proj.weight_packed"), "I32 [64, 24]");
  EXPECT_EQ(KindOf(int4, expert + "up_proj.weight_scale"), "BF16 [64, 6]");
  EXPECT_EQ(KindOf(int4, expert + "up_proj.weight_zero_point"), "I32 [8, 6]");
  EXPECT_EQ(KindOf(int4, expert + "up_proj.weight_shape"), "I64 [2]");
  EXPECT_EQ(KindOf(int4, table + "shard_0.weight"), "BF16 [8064, 24]");
}

Json ConfigWritten(const SynthRequest& request) {
  test::OrThrow(Synthesise(request));
  return test::OrThrow(ReadJsonFile(request.output / "config.json", 1 << 20));
}

TEST(Synthesise, TheConfigurationDescribesTheFormats) {
  const test::TempDir dir;
  Json fp8 = ConfigWritten(Request(dir / "fp8", kFp8))["quantization_config"];
  EXPECT_EQ(fp8["weight_block_size"], Json({128, 128}));
  const Json skipped = fp8["modules_to_not_convert"];
  const auto skips = [&](const char* module) { return std::ranges::count(skipped, module) == 1; };
  EXPECT_TRUE(skips("mtp.fc_hidden"));
  EXPECT_TRUE(skips("lm_head"));
  EXPECT_FALSE(skips("mtp.layers.0.mlp.experts"));
  EXPECT_EQ(skipped.dump().find("shard_"), std::string::npos);  // so the table is FP8

  Json nvfp4 = ConfigWritten(Request(dir / "nvfp4", kNvfp4));
  EXPECT_EQ(nvfp4["quantization_config"]["quant_algo"], "NVFP4");
  EXPECT_EQ(nvfp4["quantization_config"]["config_groups"]["group_0"]["targets"],
            Json::array({"Linear"}));
  EXPECT_FALSE(nvfp4["text_config"].contains("ple_embedding_dtype"));

  SynthRequest mixed = Request(dir / "mixed", kNvfp4);
  mixed.formats.draft_experts = kFp8;
  const Json layers = ConfigWritten(mixed)["quantization_config"]["quantized_layers"];
  EXPECT_EQ(layers["mtp.layers.0.mlp.experts"]["quant_algo"], "FP8_PB_WO");
  EXPECT_EQ(layers["model.language_model.layers.3.mlp.experts"]["group_size"], 16);
  EXPECT_EQ(layers.size(), 4 + 1 + 1);

  SynthRequest int4 = Request(dir / "int4", kInt4);
  int4.formats.table = WeightFormat::kFp8;
  Json config = ConfigWritten(int4);
  EXPECT_EQ(config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"], 32);
  EXPECT_EQ(config["text_config"]["ple_embedding_dtype"], "float8_e4m3fn");
}

TEST(Synthesise, SparseRowsAreHolesAndTheOthersAreAsWithout) {
  const test::TempDir dir;
  SynthRequest sparse = Request(dir / "sparse");
  sparse.sparse = true;
  const SynthSummary summary = test::OrThrow(Synthesise(sparse));
  EXPECT_EQ(summary.hole_bytes, 4 * (8064 - 1024) * 24 * 2);
  test::OrThrow(Synthesise(Request(dir / "whole")));
  const std::string name =
      "model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight";
  const std::string holes = Contents(dir / "sparse").at(name),
                    whole = Contents(dir / "whole").at(name);
  const std::size_t header = holes.size() - 8064 * 48, written = header + 1024 * 48;
  EXPECT_EQ(holes.substr(0, written), whole.substr(0, written));
  EXPECT_EQ(holes.substr(written), std::string(holes.size() - written, '\0'));
}

TEST(Synthesise, RefusesWhatItCannotWrite) {
  const test::TempDir dir;
  const auto refused = [&](SynthRequest request, const std::vector<std::string>& parts) {
    const auto result = Synthesise(request);
    EXPECT_FALSE(fs::exists(request.output));
    if (result.ok()) return ::testing::AssertionFailure() << "was accepted";
    return test::IsError(result.error(), result.error().code, parts);
  };
  const SynthRequest good = Request(dir / "out");
  SynthRequest request = good;
  request.formats = PublishedWith({WeightFormat::kInt4, 128, true});
  EXPECT_TRUE(refused(request, {"--weights", "192 columns", "128"}));
  request = good;
  request.formats.table = WeightFormat::kNvfp4;
  EXPECT_TRUE(refused(request, {"--table-weights", "24 columns", "16"}));
  request = good;
  request.formats.draft_experts = kFp8;
  EXPECT_TRUE(refused(request, {"--draft-weights", "BF16"}));
  request = good;
  request.dimensions.table_rows = 15;
  EXPECT_TRUE(refused(request, {"--table-rows", "15", "8 heads"}));
  request = good;
  request.from = kTiny;
  request.dimensions.layers = 13;
  EXPECT_TRUE(refused(request, {"--layers", "13", "12"}));
  test::WriteFile(dir / "model.safetensors.index.json", "{}");
  EXPECT_TRUE(refused(good, {"lies inside", "out"}));
}

TEST(Synthesise, StopsWhenAskedAndLeavesNothing) {
  const test::TempDir dir;
  SynthRequest request = Request(dir / "out");
  request.progress = [](std::uint64_t done, std::uint64_t) { return done < 1'000'000; };
  const auto result = Synthesise(request);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Synthesise, ProgressEndsAtTheWhole) {
  const test::TempDir dir;
  std::uint64_t last = 0, whole = 0;
  SynthRequest request = Request(dir / "out", kNvfp4);
  request.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    whole = all;
    return true;
  };
  const SynthSummary summary = test::OrThrow(Synthesise(request));
  EXPECT_EQ(last, whole);
  EXPECT_EQ(static_cast<std::int64_t>(whole), summary.bytes);
}

TEST(Synthesise, ASmallVocabularyGetsATokenizerThatFits) {
  const test::TempDir dir;
  Json config = test::OrThrow(MakeConfig({.source = "tiny"}));
  config["text_config"]["vocab_size"] = 400;
  test::WriteFile(dir / "config.json", config.dump());
  SynthRequest request = Request(dir / "out");
  request.dimensions.source = dir / "config.json";
  test::OrThrow(Synthesise(request));
  const Json tokenizer = test::OrThrow(ReadJsonFile(dir / "out/tokenizer.json", 1 << 20));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 400);
  EXPECT_EQ(tokenizer["model"]["merges"].size(), 400 - 256 - 13);
  config["text_config"]["vocab_size"] = 268;
  test::WriteFile(dir / "config.json", config.dump());
  request.output = dir / "small";
  EXPECT_TRUE(test::Refuses(Synthesise(request), Code::kUnsupported, {"268", "269"}));
}

}  // namespace
}  // namespace kv8
