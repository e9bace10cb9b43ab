// The configuration of the released model: its dimensions without its weights.
#pragma once

#include "base/json.h"
#include "family/model_config.h"

namespace kv8::test {

inline constexpr const char* kReleasedConfig = R"({
  "model_type": "qwen4_exp_text", "hidden_size": 2560, "num_hidden_layers": 48,
  "num_attention_heads": 24, "num_key_value_heads": 2, "head_dim": 256, "rms_norm_eps": 1e-6,
  "vocab_size": 248320, "max_position_embeddings": 262144, "eos_token_id": 248044,
  "rope_theta": 10000000, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
  "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "output_gate_type": "sigmoid",
  "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 640,
  "shared_expert_intermediate_size": 640, "hc_count": 4, "hc_lowrank": 320,
  "ple_layer_ids": [2], "ple_embed_dim": 2560, "ple_conv_kernel_size": 4, "ngram_size": 3,
  "heads_per_ngram": 8, "ngram_vocab_size_base": 20000000,
  "make_ngram_vocab_size_divisible_by": 128, "split_ngram_parts": 128,
  "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
  "indexer_compress_ratio": 4, "mtp_num_hidden_layers": 1})";

inline ModelSpec ReleasedSpec() {
  return ReadModelSpec(ParseJson(kReleasedConfig, "released").value(), "released").value();
}

}  // namespace kv8::test
