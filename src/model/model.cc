#include "model/model.h"

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
  StateLayout layout;
  layout.gdn = config_.gdn;
  layout.gdn_layers = config_.layers - KvLayers(false);
  layout.stream_width = static_cast<std::int64_t>(config_.streams) * config_.hidden;
  layout.index_rings = KvLayers(with_draft);
  layout.index_dim = config_.qsa.index_dim;
  if (config_.ple) {
    layout.ple_layers = static_cast<std::int64_t>(config_.ple->layers.size());
    layout.ple_conv_rows =
        static_cast<std::int64_t>(config_.ple->conv_kernel - 1) * config_.ple->ngram_size;
    layout.ple_context = config_.ple->ngram_size - 1;
    layout.eos = *config_.eos;
  }
  return layout;
}

}  // namespace kv8
