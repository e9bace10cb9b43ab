#include "model/model.h"

#include <utility>

#include "model/layers.h"

namespace kv8 {
namespace {

/// Sizes the workspace for the batch and notes each row's position.
void Prepare(Workspace& workspace, const Batch& batch) {
  workspace.Resize(batch.rows());
  for (const SequenceRows& rows : batch.sequences) {
    for (std::int64_t i = 0; i < rows.row_count; ++i) {
      workspace.positions[static_cast<std::size_t>(rows.row_begin + i)] = rows.first_position + i;
    }
  }
}

/// streams[t, s*H + d] += rows[t, d] for every stream s.
void AddToEveryStream(ConstMatrix rows, Matrix streams) {
  for (std::int64_t t = 0; t < rows.rows; ++t) {
    const auto add = rows.row(t);
    const auto out = streams.row(t);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += add[i % add.size()];
  }
}

/// logits = mix(streams) . head^T
void MixAndProject(const ModelConfig& config, const OpTable& ops, const ForwardContext& context,
                   const HyperConnectionWeights& mixer, const WeightView& head, ConstMatrix streams,
                   Matrix logits) {
  Workspace& w = context.workspace;
  w.Resize(streams.rows);
  ops.hyper_mix(context.ops, streams, mixer, config.streams, config.rms_eps, w.x, w.inject);
  const LinearPart part{head, logits};
  ops.linear(context.ops, w.x, {&part, 1});
}

}  // namespace

Result<Model> Model::Create(const Checkpoint& checkpoint, const OpTable& ops) {
  KV8_ASSIGN_OR_RETURN(ModelWeights weights, BindWeights(checkpoint));
  return Model(checkpoint.config(), std::move(weights), ops);
}

Model::Model(ModelConfig config, ModelWeights weights, const OpTable& ops)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      ops_(ops),
      inv_freq_(RopeFrequencies(config_.qsa.rope_theta, config_.qsa.rotary_dim)) {
  if (config_.mtp)
    draft_inv_freq_ = RopeFrequencies(config_.mtp->rope_theta, config_.qsa.rotary_dim);
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

void Model::Forward(const ForwardContext& context, const Batch& batch, Matrix streams) const {
  Prepare(context.workspace, batch);
  const Pass pass{config_, ops_, context, batch};
  ops_.embed(context.ops, batch.ids, weights_.embed, config_.streams, streams);
  int ple_layer = 0;
  int gdn_layer = 0;
  int kv_layer = 0;
  for (int i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    if (layer.ple) PleBlock(pass, *layer.ple, ple_layer++, streams);
    if (layer.gdn) {
      GdnBlock(pass, layer, gdn_layer++, streams);
    } else {
      QsaBlock(pass, layer, {i, kv_layer++}, inv_freq_, streams);
    }
    MoeBlock(pass, layer, streams);
    if (context.observer != nullptr) context.observer->OnStreams(i, streams);
  }
}

void Model::Draft(const ForwardContext& context, const Batch& batch, ConstMatrix target,
                  Matrix streams) const {
  Prepare(context.workspace, batch);
  const Pass pass{config_, ops_, context, batch};
  const MtpWeights& mtp = *weights_.mtp;
  Workspace& w = context.workspace;
  ops_.embed(context.ops, batch.ids, weights_.embed, 1, w.x);
  ops_.grouped_rms_norm(context.ops, w.x, mtp.embedding_gain, 1, config_.rms_eps, w.x);
  const LinearPart embedding{mtp.embedding_projection, w.draft_embedding};
  ops_.linear(context.ops, w.x, {&embedding, 1});

  // One RMS over all streams, then the same projection for each.
  ops_.grouped_rms_norm(context.ops, target, mtp.hidden_gain, 1, config_.rms_eps, w.draft_hidden);
  const std::int64_t stream_rows = batch.rows() * config_.streams;
  const LinearPart hidden{mtp.hidden_projection, Matrix(streams.data, stream_rows, config_.hidden)};
  ops_.linear(context.ops, ConstMatrix(w.draft_hidden.data, stream_rows, config_.hidden),
              {&hidden, 1});
  AddToEveryStream(w.draft_embedding, streams);

  QsaBlock(pass, mtp.layer, {config_.layers, KvLayers(false)}, draft_inv_freq_, streams);
  MoeBlock(pass, mtp.layer, streams);
  if (context.observer != nullptr) context.observer->OnStreams(config_.layers, streams);
}

void Model::Logits(const ForwardContext& context, ConstMatrix streams, Matrix logits) const {
  MixAndProject(config_, ops_, context, weights_.mixer, weights_.lm_head, streams, logits);
}

void Model::DraftLogits(const ForwardContext& context, ConstMatrix streams, Matrix logits) const {
  MixAndProject(config_, ops_, context, weights_.mtp->mixer, weights_.lm_head, streams, logits);
}

}  // namespace kv8
