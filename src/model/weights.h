// Weights of the whole model, bound to a checkpoint's tensors.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kv8/error.h"
#include "ops/gdn.h"
#include "ops/hyper_connection.h"
#include "ops/moe.h"
#include "ops/ple.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Gated DeltaNet layer.
struct GdnLayerWeights {
  WeightView qkv;  // [C,H]
  WeightView z;    // [Vh*Dv,H]
  WeightView b;    // [Vh,H]
  WeightView a;    // [Vh,H]
  WeightView out;  // [H,Vh*Dv]
  GdnWeights core;
};

/// QSA attention layer.
struct QsaLayerWeights {
  WeightView q;                     // [Hq*2D,H]; per head D query rows, then D gate rows
  WeightView k;                     // [Hkv*D,H]
  WeightView v;                     // [Hkv*D,H]
  WeightView out;                   // [H,Hq*D]
  WeightView index_qk;              // [(Hi+1)*Di,H]; Hi query heads, then the key
  std::vector<float> q_gain;        // [D] = 1 + w
  std::vector<float> k_gain;        // [D] = 1 + w
  std::vector<float> index_q_gain;  // [Di] = 1 + w
  std::vector<float> index_k_gain;  // [Di] = 1 + w
};

/// One layer; exactly one of gdn and qsa is set.
struct LayerWeights {
  std::optional<PleWeights> ple;
  HyperConnectionWeights attention_connection;
  std::optional<GdnLayerWeights> gdn;
  std::optional<QsaLayerWeights> qsa;
  HyperConnectionWeights mlp_connection;
  MoeWeights moe;
};

/// The draft head.
struct MtpWeights {
  WeightView embedding_projection;    // [H,H]
  WeightView hidden_projection;       // [H,H]
  std::vector<float> embedding_gain;  // [H] = 1 + w
  std::vector<float> hidden_gain;     // [S*H] = 1 + w
  LayerWeights layer;                 // a QSA layer
  HyperConnectionWeights mixer;
};

struct ModelWeights {
  WeightView embed;    // [V,H]
  WeightView lm_head;  // [V,H]
  std::vector<LayerWeights> layers;
  HyperConnectionWeights mixer;
  std::optional<MtpWeights> mtp;
};

/// Binds every tensor of the schema: matrices stay where the checkpoint maps them, vectors (norms,
/// gates, short convolutions) become FP32 once. The checkpoint must outlive the result. Errors:
/// those of Checkpoint::Get; kCorrupt for a non-finite value in a vector, naming tensor and file.
Result<ModelWeights> BindWeights(const Checkpoint& checkpoint);

}  // namespace kv8
