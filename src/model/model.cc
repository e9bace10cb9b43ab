#include "model/model.h"

#include "kvcache/layout.h"

namespace kv8 {

Result<Model> Model::Create(const Checkpoint& checkpoint) {
  KV8_ASSIGN_OR_RETURN(ModelWeights weights, BindWeights(checkpoint));
  return Model(checkpoint.config(), std::move(weights));
}

int Model::KvLayers(bool with_draft) const {
  return static_cast<int>(config_.QsaLayers().size()) + (with_draft && config_.mtp ? 1 : 0);
}

int Model::LayerOfKv(int kv_layer) const {
  const std::vector<int> layers = config_.QsaLayers();
  const auto i = static_cast<std::size_t>(kv_layer);
  return i < layers.size() ? layers[i] : config_.layers;
}

StateLayout Model::SequenceLayout(bool with_draft) const {
  const GdnConfig& gdn = config_.gdn;
  StateLayout layout(config_.eos.value_or(0));
  for (int i = config_.layers - KvLayers(false); i > 0; --i) {
    layout.Add(StateKind::kGdnConv, (gdn.conv_kernel - 1) * gdn.conv_channels());
    layout.Add(StateKind::kGdnState, std::int64_t{gdn.value_heads} * gdn.key_dim * gdn.value_dim);
  }
  if (config_.ple) {
    for (std::size_t i = config_.ple->layers.size(); i > 0; --i) {
      layout.Add(StateKind::kPleConv, config_.ple->conv_rows() * stream_width());
      layout.Add(StateKind::kPleContext, config_.ple->ngram_size - 1);
    }
  }
  for (int i = KvLayers(with_draft); i > 0; --i) {
    layout.Add(StateKind::kIndexRing, kIndexRingTokens * config_.qsa.index_dim);
  }
  return layout;
}

}  // namespace kv8
