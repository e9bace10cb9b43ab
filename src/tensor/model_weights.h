// The model: what its configuration means, and its weights on one device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensor/layer_weights.h"
#include "tensor/model_spec.h"
#include "tensor/weight.h"

namespace kv8 {

/// Gated DeltaNet layer.
struct GdnLayerWeights {
  Weight qkv;  // [C,H]
  Weight z;    // [Vh*Dv,H]
  Weight b;    // [Vh,H]
  Weight a;    // [Vh,H]
  Weight out;  // [H,Vh*Dv]
  GdnWeights core;
};

/// QSA attention layer.
struct QsaLayerWeights {
  Weight q;                             // [Hq*2D,H]; per head D query rows, then D gate rows
  Weight k;                             // [Hkv*D,H]
  Weight v;                             // [Hkv*D,H]
  Weight out;                           // [H,Hq*D]
  Weight index_qk;                      // [(Hi+1)*Di,H]; Hi query heads, then the key
  std::span<const float> q_gain;        // [D] = 1 + w
  std::span<const float> k_gain;        // [D] = 1 + w
  std::span<const float> index_q_gain;  // [Di] = 1 + w
  std::span<const float> index_k_gain;  // [Di] = 1 + w
  std::span<const float> inv_freq;      // see RopeFrequencies
};

/// One layer; exactly one of gdn and qsa is set.
struct LayerWeights {
  LayerSpec spec;
  std::optional<PleWeights> ple;
  HyperConnectionWeights attention_connection;
  std::optional<GdnLayerWeights> gdn;
  std::optional<QsaLayerWeights> qsa;
  HyperConnectionWeights mlp_connection;
  MoeWeights moe;
};

/// The draft head.
struct MtpWeights {
  Weight embedding_projection;            // [H,H]
  Weight hidden_projection;               // [H,H]
  std::span<const float> embedding_gain;  // [H] = 1 + w
  std::span<const float> hidden_gain;     // [S*H] = 1 + w
  LayerWeights layer;                     // a QSA layer
  HyperConnectionWeights mixer;
};

/// Every weight of a model, as one device has it: matrices and vectors lie in that device's memory.
/// Movable: what is pointed to stays.
struct ModelWeights {
  Weight embed;    // [V,H]; empty in a stage of a pipeline that embeds nothing
  Weight lm_head;  // [V,H]; of the last stage, as is the mixer
  std::vector<LayerWeights> layers;
  HyperConnectionWeights mixer;
  std::optional<MtpWeights> mtp;
  /// The vectors themselves, of weights in host memory.
  std::vector<std::vector<float>> vectors;
  /// Parts of matrices that are no run of whole rows in the checkpoint.
  std::vector<std::shared_ptr<const std::byte[]>> copies;
};

/// Source: docs/spec/numerics.md. S streams, H hidden, V vocabulary.
struct Model {
  ModelSpec spec;
  ModelWeights weights;
};

}  // namespace kv8
