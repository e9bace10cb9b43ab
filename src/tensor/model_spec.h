// What a configuration means, without a byte of weights: dimensions, the list of layers, the draft.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv8/types.h"
#include "tensor/layer_config.h"

namespace kv8 {

/// How a layer mixes tokens.
enum class LayerKind { kGdn, kQsa };

/// One layer, and where its state and caches lie.
struct LayerSpec {
  int number = 0;  // in the checkpoint; the draft layer follows the target's
  LayerKind kind = LayerKind::kGdn;
  int gdn_layer = -1;     // among the GDN layers; -1 for others
  int kv_layer = -1;      // among those with K/V, the draft layer last; -1 for others
  int ple_layer = -1;     // among those with n-gram memory; -1 for others
  double rope_theta = 0;  // of a layer with K/V
};

/// The text model. Every value was read from the configuration or has the family's documented
/// default.
struct ModelSpec {
  int hidden = 0;
  int vocab = 0;
  std::int64_t max_positions = 0;
  float rms_eps = 0;
  int streams = 0;             // hc_count
  int lowrank = 0;             // hc_lowrank
  std::optional<TokenId> eos;  // the PLE segment token, not the chat stop token
  GdnConfig gdn;
  QsaConfig qsa;
  MoeConfig moe;
  std::optional<PleConfig> ple;
  std::vector<LayerSpec> layers;   // the target's
  std::optional<LayerSpec> draft;  // the draft head's, with K/V

  /// S*H, of one row's residual streams.
  std::int64_t stream_width() const { return std::int64_t{streams} * hidden; }
  int layer_count() const { return static_cast<int>(layers.size()); }
  int GdnLayers() const { return layer_count() - KvLayers(false); }
  /// Layers that need K/V pools; the draft layer, when wanted and there, is the last.
  int KvLayers(bool with_draft) const {
    int count = with_draft && draft ? 1 : 0;
    for (const LayerSpec& layer : layers) count += layer.kv_layer >= 0 ? 1 : 0;
    return count;
  }
  /// Numbers of the target's layers with K/V, ascending.
  std::vector<int> KvLayerNumbers() const {
    std::vector<int> numbers;
    for (const LayerSpec& layer : layers) {
      if (layer.kv_layer >= 0) numbers.push_back(layer.number);
    }
    return numbers;
  }
  /// Number in the checkpoint of K/V layer `kv_layer` (draft: the number of target layers).
  int LayerOfKv(int kv_layer) const {
    for (const LayerSpec& layer : layers) {
      if (layer.kv_layer == kv_layer) return layer.number;
    }
    return draft ? draft->number : layer_count();
  }
};

}  // namespace kv8
