#include "checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/config_reader.h"

namespace kv8 {
namespace {

/// Of compressed-tensors: how the file came to be, and which layers were left as they are.
constexpr std::array<std::string_view, 5> kNotes = {"format", "global_compression_ratio", "ignore",
                                                    "quantization_status", "version"};
/// What quantises or changes weights when it is not empty.
constexpr std::array<std::string_view, 3> kWeightGroups = {"config_groups", "sparsity_config",
                                                           "transform_config"};

bool Contains(const auto& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

Result<void> CheckScheme(const Json& scheme, std::string where) {
  if (!scheme.is_object()) {
    return Error{Code::kUnsupported, fmt::format("is {}; must be an object", JsonText(scheme)),
                 std::move(where), "restore the file from the checkpoint's source"};
  }
  ConfigReader reader(scheme, std::move(where));
  reader.RequireOneOf("type", {"float"}, /*absent_ok=*/false);
  reader.RequireOneOf("strategy", {"tensor"}, /*absent_ok=*/true);
  reader.RequireBool("dynamic", false);
  reader.RequireBool("symmetric", true);
  if (const std::int64_t bits = reader.Int("num_bits", 1, 64); bits != 8) {
    reader.Fail(Code::kUnsupported, "num_bits", fmt::format("is {}; kv8 implements 8", bits));
  }
  return reader.status();
}

}  // namespace

Result<void> CheckQuantizationConfig(const Json& config, const std::string& where) {
  const auto refuse = [&where](const std::string& what) {
    return Error{Code::kUnsupported, what + "; this build runs BF16, F16 and F32 weights", where,
                 "use the unquantised checkpoint"};
  };
  if (!config.is_object()) return refuse(fmt::format("is {}", JsonText(config)));
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || Contains(kNotes, key)) continue;
    if (Contains(kWeightGroups, key) && value.is_object() && value.empty()) continue;
    if (key == "quant_method" && value == "compressed-tensors") continue;
    if (key != "kv_cache_scheme") return refuse(fmt::format("{} is {}", key, JsonText(value)));
    KV8_RETURN_IF_ERROR(CheckScheme(value, fmt::format("{}: {}", where, key)));
  }
  return {};
}

}  // namespace kv8
