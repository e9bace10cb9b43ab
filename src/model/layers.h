// The blocks of one layer, as the forward pass and the draft head call them.
#pragma once

#include <span>

#include "model/model.h"

namespace kv8 {

/// One pass over one batch: what every block of every layer needs.
struct Pass {
  const ModelConfig& config;
  const OpTable& ops;
  const ForwardContext& context;
  const Batch& batch;
};

/// R += PLE(R, ids).
void PleBlock(const Pass& pass, const PleWeights& weights, int ple_layer, Matrix streams);

/// R += inject * GDN(mix(R)).
void GdnBlock(const Pass& pass, const LayerWeights& weights, int gdn_layer, Matrix streams);

/// Which attention layer a QsaBlock is.
struct QsaLayerIds {
  int layer = 0;     // checkpoint number, for the observer
  int kv_layer = 0;  // pool and ring
};

/// R += inject * Attention(mix(R)).
void QsaBlock(const Pass& pass, const LayerWeights& weights, QsaLayerIds ids,
              std::span<const float> inv_freq, Matrix streams);

/// R += inject * MoE(mix(R)).
void MoeBlock(const Pass& pass, const LayerWeights& weights, Matrix streams);

}  // namespace kv8
