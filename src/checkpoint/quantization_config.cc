#include "checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/file.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/quantization_reader.h"

namespace kv8 {
namespace {

constexpr const char* kProducerFile = "hf_quant_config.json";
constexpr std::uint64_t kMaxConfigBytes = 16'000'000;

}  // namespace

QuantizationClaim QuantizationConfig::ClaimOf(std::span<const std::string_view> names) const {
  for (const Target& target : named_) {
    if (!target.modules.Find(names).empty()) return {&target.scheme, true, {}};
  }
  if (const std::string_view entry = ignore_.Find(names); !entry.empty()) {
    return {nullptr, false, entry};
  }
  for (const Target& target : targeted_) {
    if (target.modules.empty() || !target.modules.Find(names).empty()) {
      return {&target.scheme, false, {}};
    }
  }
  return {};
}

Result<QuantizationConfig> QuantizationConfig::Parse(const Json& json, std::string where) {
  QuantizationConfig config;
  config.where_ = where;
  if (!json.is_object()) {
    return Error{Code::kUnsupported, fmt::format("is {}; must be an object", JsonText(json)),
                 std::move(where), "restore the file from the checkpoint's source"};
  }
  QuantizationReader reader(json, config);
  KV8_RETURN_IF_ERROR(reader.Read());
  return config;
}

Result<std::vector<QuantizationConfig>> LoadQuantizationConfigs(const std::filesystem::path& dir) {
  std::vector<QuantizationConfig> configs;
  const auto add = [&](const Json& object, std::string_view key, const std::string& where) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return Result<void>();
    auto config = QuantizationConfig::Parse(*found, fmt::format("{}: {}", where, key));
    if (!config.ok()) return Result<void>(std::move(config).error());
    configs.push_back(std::move(*config));
    return Result<void>();
  };
  if (const auto path = dir / kConfigFile; PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxConfigBytes));
    const Json none = Json::object();
    const Json& root = json.is_object() ? json : none;
    const auto nested = root.find("text_config");
    const bool has_text = nested != root.end() && nested->is_object();
    for (const char* key : {"quantization_config", "compression_config"}) {
      KV8_RETURN_IF_ERROR(add(root, key, path.string()));
      if (has_text) KV8_RETURN_IF_ERROR(add(*nested, key, path.string() + ": text_config"));
    }
  }
  if (const auto path = dir / kProducerFile; PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxConfigBytes));
    if (json.is_object()) KV8_RETURN_IF_ERROR(add(json, "quantization", path.string()));
  }
  return configs;
}

}  // namespace kv8
