#include "support/scale_pack_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/sha256.h"
#include "scalepack/manifest.h"
#include "scalepack/pack_writer.h"
#include "scalepack/scale_names.h"
#include "scalepack/sha256sums.h"
#include "support/golden.h"

namespace kv8::test {
namespace {

namespace fs = std::filesystem;

SideStatistics MakeSide(float max_abs) {
  SideStatistics side;
  side.count = 1000;
  side.finite_count = 1000;
  side.nonzero_count = 990;
  side.saturation_checked_count = 1000;
  side.max_abs = max_abs;
  side.histogram.bins[LogHistogram::BinOf(max_abs)] = 90;
  side.histogram.bins[LogHistogram::BinOf(max_abs / 4)] = 900;
  side.shard_max_abs = {{"chinese", max_abs / 2}, {"code", max_abs}, {"silence", 0.0f}};
  return side;
}

LayerStatistics MakeLayer(int layer) {
  const auto id = static_cast<float>(layer);
  return {layer, MakeSide(8.0f + id / 4), MakeSide(1.0f + id / 16)};
}

}  // namespace

fs::path TinyModelDir() {
  return BundledModel();
}

const Checkpoint& TinyModel() {
  static const Checkpoint checkpoint = Checkpoint::Open(TinyModelDir()).value();
  return checkpoint;
}

CalibrationReport MakeReport(const Checkpoint& checkpoint, bool with_draft) {
  CalibrationReport report;
  report.base = LineageOf(checkpoint, {}).value();
  report.layer_prefix = checkpoint.layer_prefix();
  report.target_layers = checkpoint.config().layer_count();
  report.corpus_sha256 = {Sha256Hex("corpus")};
  report.documents = 3;
  report.tokens = 500;
  for (const int layer : checkpoint.config().KvLayerNumbers())
    report.layers.push_back(MakeLayer(layer));
  if (with_draft) report.layers.push_back(MakeLayer(report.target_layers));
  return report;
}

void CopyTinyModel(const fs::path& dir) {
  fs::create_directories(dir);
  for (const auto& entry : fs::directory_iterator(TinyModelDir())) {
    const fs::path name = entry.path().filename();
    if (name == kIndexFile) {
      fs::copy_file(entry.path(), dir / name);
      fs::permissions(dir / name, fs::perms::owner_write, fs::perm_options::add);
    } else {
      fs::create_symlink(fs::canonical(entry.path()), dir / name);
    }
  }
}

void EditIndex(const fs::path& dir, const std::function<void(Json&)>& edit) {
  Json index = Json::parse(Slurp(dir / kIndexFile));
  edit(index);
  WriteFile(dir / kIndexFile, index.dump());
}

void CopyTunedModel(const fs::path& dir, const std::string& tensor) {
  CopyTinyModel(dir);
  const fs::path shard = TinyModel().FileOf(tensor);
  std::string bytes = Slurp(shard);
  for (const SafetensorsFile& file : TinyModel().files()) {
    if (file.path() == shard) bytes[TinyModel().Find(tensor)->data - file.bytes().data()] ^= 1;
  }
  fs::remove(dir / shard.filename());
  WriteFile(dir / shard.filename(), bytes);
}

void CopyModelWithConfig(const fs::path& dir, const std::string& key, const Json& value) {
  CopyTinyModel(dir);
  Json config = Json::parse(Slurp(dir / "config.json"));
  config["text_config"][key] = value;
  fs::remove(dir / "config.json");
  WriteFile(dir / "config.json", config.dump());
}

void AddShard(const fs::path& dir, const std::string& filename, const ScaleFile& file) {
  WriteFile(dir / filename, SerializeScaleFile(file));
  EditIndex(dir, [&](Json& index) {
    for (const auto& [name, value] : file.scales) index["weight_map"][name] = filename;
  });
}

ScaleFile FullScaleSet() {
  ScaleFile file;
  for (const ScaleSlot& slot : TargetSlots(TinyModel())) {
    file.scales[ScaleTensorName(TinyModel().layer_prefix(), slot)] = 0.0125f;
  }
  return file;
}

void MakePack(const fs::path& dir, bool with_draft) {
  const auto written = WritePack(MakeReport(TinyModel(), with_draft), TinyModel(), dir, {});
  ASSERT_TRUE(written.ok()) << written.error().ToString();
}

void MakePublishedPack(const fs::path& dir) {
  MakePack(dir, /*with_draft=*/false);
  WriteFile(dir / "materialize_overlay.py", "print('hello')\n");
  EditManifest(dir, [](Json& manifest) {
    for (const char* key : {"kv_weights_sha256", "weights_sha256", "config"}) {
      manifest["base_checkpoint"].erase(key);
    }
    for (Json& tensor : manifest["tensors"]) tensor["p99.9"] = 1.0;
  });
}

void RewriteSums(const fs::path& pack) {
  Sha256Sums sums;
  for (const auto& entry : fs::directory_iterator(pack)) {
    const std::string name = entry.path().filename().string();
    if (name != kSumsFile && entry.is_regular_file()) sums[name] = Sha256Hex(Slurp(entry.path()));
  }
  WriteFile(pack / kSumsFile, FormatSha256Sums(sums));
}

void EditManifest(const fs::path& pack, const std::function<void(Json&)>& edit) {
  Json manifest = Json::parse(Slurp(pack / kManifestFile));
  edit(manifest);
  WriteFile(pack / kManifestFile, DumpJson(manifest));
  RewriteSums(pack);
}

void ReplaceScaleFile(const fs::path& pack, const std::string& key, const std::string& bytes) {
  EditManifest(pack, [&](Json& manifest) {
    WriteFile(pack / manifest[key]["filename"].get<std::string>(), bytes);
    manifest[key]["sha256"] = Sha256Hex(bytes);
  });
}

void EditScaleFile(const fs::path& pack, const std::string& key,
                   const std::function<void(ScaleFile&)>& edit) {
  const Json manifest = Json::parse(Slurp(pack / kManifestFile));
  const std::string bytes = Slurp(pack / manifest[key]["filename"].get<std::string>());
  ScaleFile file = ParseScaleFile(std::as_bytes(std::span(bytes)), "fixture").value();
  edit(file);
  ReplaceScaleFile(pack, key, SerializeScaleFile(file));
}

std::string Snapshot(const fs::path& dir) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    const std::string name = entry.path().lexically_relative(dir).string();
    if (entry.is_symlink()) {
      lines.push_back(name + " -> " + fs::read_symlink(entry.path()).string());
    } else if (entry.is_regular_file()) {
      lines.push_back(name + " " + Sha256Hex(Slurp(entry.path())));
    } else {
      lines.push_back(name + "/");
    }
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace kv8::test
