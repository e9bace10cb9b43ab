// Every weight of a model, one after another: what copying, moving or counting them needs.
#pragma once

#include <initializer_list>

#include "tensor/model_weights.h"

namespace kv8 {

/// Parts of a model that users know by name.
enum class WeightModule : int {
  kEmbeddings,
  kNgramTable,
  kNgramProjections,
  kHyperConnections,
  kLinearAttention,
  kAttention,
  kRouter,
  kExperts,
  kSharedExpert,
  kDraftProjections,
  kHead,
};

/// Calls visitor.Matrix(Weight&), .Experts(std::initializer_list<std::vector<Weight>*>) for
/// matrices that each expert has and that read one input, .Table(Weight&) for rows that are looked
/// up, and .Vector(std::span<const float>&), once for each weight that is there. Where the visitor
/// has .Enter(WeightModule, bool draft), the weights that follow belong to that module.
template <class Visitor>
class WeightVisit {
 public:
  explicit WeightVisit(Visitor& visitor) : v_(visitor) {}

  void operator()(ModelWeights& w) {
    Enter(WeightModule::kEmbeddings);
    v_.Table(w.embed);
    Enter(WeightModule::kHead);
    v_.Matrix(w.lm_head);
    for (LayerWeights& layer : w.layers) Visit(layer);
    Visit(w.mixer);
    if (w.mtp) Visit(*w.mtp);
  }

 private:
  void Enter(WeightModule module) {
    if constexpr (requires { v_.Enter(module, draft_); }) v_.Enter(module, draft_);
  }
  void Visit(LayerWeights& w) {
    if (w.ple) Visit(*w.ple);
    Visit(w.attention_connection);
    if (w.gdn) Visit(*w.gdn);
    if (w.qsa) Visit(*w.qsa);
    Visit(w.mlp_connection);
    Visit(w.moe);
  }
  void Visit(HyperConnectionWeights& w) {
    Enter(WeightModule::kHyperConnections);
    v_.Vector(w.gain);
    v_.Matrix(w.down);
    v_.Matrix(w.up);
    if (!w.inject.empty()) v_.Matrix(w.inject);
  }
  void Visit(GdnLayerWeights& w) {
    Enter(WeightModule::kLinearAttention);
    for (Weight* matrix : {&w.qkv, &w.z, &w.b, &w.a, &w.out}) v_.Matrix(*matrix);
    for (auto* vector : {&w.core.conv, &w.core.decay, &w.core.dt_bias, &w.core.norm}) {
      v_.Vector(*vector);
    }
  }
  void Visit(QsaLayerWeights& w) {
    Enter(WeightModule::kAttention);
    for (Weight* matrix : {&w.q, &w.k, &w.v, &w.out, &w.index_qk}) v_.Matrix(*matrix);
    for (auto* vector : {&w.q_gain, &w.k_gain, &w.index_q_gain, &w.index_k_gain, &w.inv_freq}) {
      v_.Vector(*vector);
    }
  }
  void Visit(MoeWeights& w) {
    Enter(WeightModule::kRouter);
    v_.Matrix(w.router);
    Enter(WeightModule::kExperts);
    v_.Experts({&w.gate, &w.up});
    v_.Experts({&w.down});
    Enter(WeightModule::kSharedExpert);
    for (Weight* matrix :
         {&w.shared_gate_proj, &w.shared_up_proj, &w.shared_down_proj, &w.shared_gate}) {
      v_.Matrix(*matrix);
    }
  }
  void Visit(PleWeights& w) {
    Enter(WeightModule::kNgramTable);
    for (Weight& shard : w.shards) v_.Table(shard);
    Enter(WeightModule::kNgramProjections);
    v_.Matrix(w.key);
    v_.Matrix(w.value);
    for (auto* vector : {&w.gain_key, &w.gain_query, &w.gain_conv, &w.conv}) v_.Vector(*vector);
  }
  void Visit(MtpWeights& w) {
    draft_ = true;
    Enter(WeightModule::kDraftProjections);
    v_.Matrix(w.embedding_projection);
    v_.Matrix(w.hidden_projection);
    v_.Vector(w.embedding_gain);
    v_.Vector(w.hidden_gain);
    Visit(w.layer);
    Visit(w.mixer);
  }

  Visitor& v_;
  bool draft_ = false;
};

}  // namespace kv8
