// What config.json says about a model of the family, validated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "tensor/layer_config.h"

namespace kv8 {

/// How a layer mixes tokens.
enum class LayerKind { kGdn, kQsa };

/// The draft head.
struct MtpConfig {
  double rope_theta = 0;
};

/// The text model. Every value was read from the file or has the family's documented default.
struct ModelConfig {
  int hidden = 0;
  int layers = 0;
  int vocab = 0;
  std::int64_t max_positions = 0;
  float rms_eps = 0;
  int streams = 0;             // hc_count
  int lowrank = 0;             // hc_lowrank
  std::optional<TokenId> eos;  // the PLE segment token, not the chat stop token
  std::vector<LayerKind> layer_kinds;
  GdnConfig gdn;
  QsaConfig qsa;
  MoeConfig moe;
  std::optional<PleConfig> ple;
  std::optional<MtpConfig> mtp;

  /// Indices of the QSA layers, ascending.
  std::vector<int> QsaLayers() const;
};

/// Reads the nested (`text_config`) or flat form; accepts every spelling of `layer_types` in use.
/// Errors: kUnsupported for a value kv8 does not implement, kCorrupt for a missing or wrongly typed
/// key, kMismatch for values that contradict each other; each names the key.
Result<ModelConfig> ParseModelConfig(const Json& config, std::string_view where);

}  // namespace kv8
