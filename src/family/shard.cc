#include "family/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>

namespace kv8 {
namespace {

/// Something that is cut into equal parts, by its name in config.json.
struct Cut {
  std::string_view field;
  std::int64_t size = 0;
  bool shared = false;  // where there are more ranks than elements, several ranks have one
};

Error Uneven(const Cut& cut, int ranks) {
  return Error{
      Code::kInvalidArgument,
      fmt::format("{} is {}, which {} ranks cannot share equally", cut.field, cut.size, ranks),
      "tensor parallelism", "choose a number of ranks that divides it"};
}

Result<void> CheckCut(const Cut& cut, int ranks) {
  const bool even = cut.size % ranks == 0 || (cut.shared && ranks % cut.size == 0);
  if (!even) return Uneven(cut, ranks);
  return {};
}

/// Part `part` of `parts`; at least one element where there is one.
Range Part(std::int64_t size, int parts, int part) {
  const std::int64_t begin = part * size / parts;
  return {begin, std::max((part + 1) * size / parts - begin, std::min<std::int64_t>(size, 1))};
}

Result<void> CheckCounts(const ModelSpec& spec, const ShardCounts& counts) {
  if (counts.pipeline < 1 || counts.pipeline > spec.layer_count()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("num_hidden_layers is {}, which {} stages cannot share",
                             spec.layer_count(), counts.pipeline),
                 "pipeline parallelism", "choose a number of stages from 1 to that of layers"};
  }
  if (counts.tensor < 1) {
    return Error{Code::kInvalidArgument, fmt::format("{} ranks", counts.tensor),
                 "tensor parallelism", "choose at least 1"};
  }
  const std::array cuts = {
      Cut{"num_attention_heads", spec.qsa.query_heads},
      Cut{"num_key_value_heads", spec.qsa.kv_heads, true},
      Cut{"linear_num_value_heads", spec.gdn.value_heads},
      Cut{"linear_num_key_heads", spec.gdn.key_heads, true},
      Cut{"num_experts", spec.moe.experts},
      Cut{"shared_expert_intermediate_size", spec.moe.shared_expert_dim},
      Cut{"vocab_size", spec.vocab},
      Cut{"split_ngram_parts", spec.ple ? spec.ple->parts : 0},
  };
  for (const Cut& cut : cuts) KV8_RETURN_IF_ERROR(CheckCut(cut, counts.tensor));
  return {};
}

/// Where the next layer of each kind lies among its like.
struct Places {
  int gdn = 0, kv = 0, ple = 0;

  LayerSpec Next(LayerSpec layer) {
    if (layer.gdn_layer >= 0) layer.gdn_layer = gdn++;
    if (layer.kv_layer >= 0) layer.kv_layer = kv++;
    if (layer.ple_layer >= 0) layer.ple_layer = ple++;
    return layer;
  }
};

}  // namespace

Result<Shard> ShardOf(const ModelSpec& spec, const ShardCounts& counts, int stage, int rank) {
  KV8_RETURN_IF_ERROR(CheckCounts(spec, counts));
  assert(stage >= 0 && stage < counts.pipeline && rank >= 0 && rank < counts.tensor);
  const auto part = [&](std::int64_t size) { return Part(size, counts.tensor, rank); };
  return Shard{.layers = Part(spec.layer_count(), counts.pipeline, stage),
               .first = stage == 0,
               .last = stage == counts.pipeline - 1,
               .query_heads = part(spec.qsa.query_heads),
               .kv_heads = part(spec.qsa.kv_heads),
               .value_heads = part(spec.gdn.value_heads),
               .key_heads = part(spec.gdn.key_heads),
               .experts = part(spec.moe.experts),
               .shared_expert = part(spec.moe.shared_expert_dim),
               .vocab = part(spec.vocab),
               .table_parts = part(spec.ple ? spec.ple->parts : 0)};
}

Shard WholeModel(const ModelSpec& spec) {
  return ShardOf(spec, {}, 0, 0).value();
}

ModelSpec SpecOf(const ModelSpec& spec, const Shard& shard) {
  ModelSpec own = spec;
  own.vocab = static_cast<int>(shard.vocab.count);
  own.qsa.query_heads = static_cast<int>(shard.query_heads.count);
  own.qsa.kv_heads = static_cast<int>(shard.kv_heads.count);
  own.gdn.value_heads = static_cast<int>(shard.value_heads.count);
  own.gdn.key_heads = static_cast<int>(shard.key_heads.count);
  own.moe.shared_expert_dim = static_cast<int>(shard.shared_expert.count);
  own.layers.clear();
  Places places;
  for (std::int64_t i = shard.layers.begin; i < shard.layers.end(); ++i) {
    own.layers.push_back(places.Next(spec.layers[static_cast<std::size_t>(i)]));
  }
  if (own.ple) {
    std::erase_if(own.ple->layers, [&shard](int layer) {
      return layer < shard.layers.begin || layer >= shard.layers.end();
    });
    own.ple->parts = static_cast<int>(shard.table_parts.count);
    if (own.ple->layers.empty()) own.ple.reset();
  }
  if (!shard.last) own.draft.reset();
  if (own.draft) own.draft = places.Next(*own.draft);
  return own;
}

}  // namespace kv8
