// `kv8 inspect`: what a checkpoint holds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/file.h"
#include "checkpoint/finite.h"
#include "commands.h"
#include "engine_flags.h"
#include "family/checkpoint.h"
#include "family/tensor_owner.h"
#include "hash_progress.h"
#include "output.h"
#include "printable.h"
#include "scalepack/kv_scales.h"
#include "scalepack/scale_names.h"

namespace kv8 {
namespace {

struct InspectOptions {
  std::filesystem::path dir;
  bool check_finite = false;
  LineageOptions lineage;
  bool json = false;
};

struct Group {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// Bytes that one token takes in the caches.
struct TokenBytes {
  std::string_view dtype;
  std::int64_t target = 0;  // K and V of the target's QSA layers
  std::int64_t draft = 0;   // K and V of the draft's layer
  double index_keys = 0;    // of all these layers; not whole, because tokens share a key
};

std::array<TokenBytes, 3> BytesPerToken(const ModelSpec& config) {
  const std::int64_t layers = std::ssize(config.KvLayerNumbers());
  const std::int64_t draft_layers = config.draft ? 1 : 0;
  const auto row = [&](std::string_view dtype, int kv_bytes, int index_bytes) {
    const std::int64_t per_layer = std::int64_t{kv_bytes} * config.qsa.kv_values_per_token();
    const double keys = index_bytes * config.qsa.index_values_per_token();
    return TokenBytes{dtype, layers * per_layer, draft_layers * per_layer,
                      static_cast<double>(layers + draft_layers) * keys};
  };
  // Index keys stay FP16 beside E4M3.
  return {row("fp16", 2, 2), row("fp8_e4m3", 1, 2), row("fp32", 4, 4)};
}

struct TensorTotals {
  std::map<std::string, Group, std::less<>> by_dtype;
  std::map<std::string, Group, std::less<>> by_owner;
  Group all;
};

TensorTotals TotalsOf(const Checkpoint& checkpoint) {
  TensorTotals out;
  for (const auto& [name, view] : checkpoint.tensors()) {
    for (Group* group : {&out.by_dtype[std::string(Name(view.dtype))],
                         &out.by_owner[std::string(OwnerOf(name))], &out.all}) {
      ++group->count;
      group->bytes += view.bytes();
    }
  }
  return out;
}

bool HasScales(const LayerScales& layer) {
  return layer.k && layer.v;
}

std::int64_t LayersWithScales(const std::vector<LayerScales>& layers, bool draft) {
  return std::count_if(layers.begin(), layers.end(), [draft](const LayerScales& layer) {
    return layer.draft == draft && HasScales(layer);
  });
}

Json ToJson(const GdnConfig& gdn) {
  return {{"key_heads", gdn.key_heads},
          {"value_heads", gdn.value_heads},
          {"key_dim", gdn.key_dim},
          {"value_dim", gdn.value_dim},
          {"conv_kernel", gdn.conv_kernel}};
}

Json ToJson(const QsaConfig& qsa) {
  return {{"query_heads", qsa.query_heads},
          {"kv_heads", qsa.kv_heads},
          {"head_dim", qsa.head_dim},
          {"rotary_dim", qsa.rotary_dim},
          {"rope_theta", qsa.rope_theta},
          {"index_heads", qsa.index_heads},
          {"index_dim", qsa.index_dim},
          {"selection_block_tokens", qsa.selection_block_tokens},
          {"budget_tokens", qsa.budget_selection_blocks * qsa.selection_block_tokens}};
}

Json ToJson(const MoeConfig& moe) {
  return {{"experts", moe.experts},
          {"experts_per_token", moe.experts_per_token},
          {"expert_dim", moe.expert_dim},
          {"shared_expert_dim", moe.shared_expert_dim}};
}

Json ToJson(const PleConfig& ple) {
  return {{"layers", ple.layers},
          {"embed_dim", ple.embed_dim},
          {"ngram_size", ple.ngram_size},
          {"heads", ple.heads()},
          {"parts", ple.parts}};
}

Json ToJson(const ModelSpec& c) {
  Json kinds = Json::array();
  for (const LayerSpec& layer : c.layers) {
    kinds.push_back(layer.kind == LayerKind::kQsa ? "qsa" : "gdn");
  }
  return {{"hidden", c.hidden},
          {"layers", c.layer_count()},
          {"layer_kinds", std::move(kinds)},
          {"vocab", c.vocab},
          {"max_positions", c.max_positions},
          {"streams", c.streams},
          {"lowrank", c.lowrank},
          {"gdn", ToJson(c.gdn)},
          {"qsa", ToJson(c.qsa)},
          {"moe", ToJson(c.moe)},
          {"ple", c.ple ? ToJson(*c.ple) : Json()},
          {"draft_layers", c.draft ? 1 : 0}};
}

Json ToJson(const std::map<std::string, Group, std::less<>>& groups) {
  Json out = Json::object();
  for (const auto& [name, group] : groups) {
    out[name] = {{"count", group.count}, {"bytes", group.bytes}};
  }
  return out;
}

Json ToJson(const std::vector<LayerScales>& layers) {
  Json out = Json::array();
  for (const LayerScales& layer : layers) {
    out.push_back({{"layer", layer.layer},
                   {"draft", layer.draft},
                   {"k", layer.k ? Json(*layer.k) : Json()},
                   {"v", layer.v ? Json(*layer.v) : Json()},
                   {"file", layer.file}});
  }
  return out;
}

/// What a run with these scales would say of them; null without scales.
Json BindingJson(const std::optional<KvScales>& scales) {
  if (!scales) return Json();
  return {{"scale_pack_id", scales->pack_id},
          {"weights", Name(scales->lineage.weights)},
          {"accepted_lineage", scales->lineage.accepted}};
}

Json ToJson(const Checkpoint& checkpoint, const std::optional<KvScales>& scales,
            bool checked_finite) {
  const TensorTotals totals = TotalsOf(checkpoint);
  Json bytes = Json::object();
  for (const TokenBytes& row : BytesPerToken(checkpoint.config())) {
    bytes[std::string(row.dtype)] = {
        {"target", row.target}, {"draft", row.draft}, {"index_keys", row.index_keys}};
  }
  Json out = {{"directory", checkpoint.dir().string()},
              {"index_sha256", checkpoint.index_sha256()},
              {"kv_weights_sha256", checkpoint.KvWeightsSha256()},
              {"config", ToJson(checkpoint.config())},
              {"stop_ids", checkpoint.stop_ids()},
              {"tensors",
               {{"count", totals.all.count},
                {"bytes", totals.all.bytes},
                {"by_dtype", ToJson(totals.by_dtype)},
                {"by_owner", ToJson(totals.by_owner)}}},
              {"quantisation", "none"},
              {"kv_scales", ToJson(ListKvScales(checkpoint))},
              {"kv_scales_binding", BindingJson(scales)},
              {"bytes_per_token", std::move(bytes)}};
  if (checked_finite) out["finite"] = true;
  return out;
}

std::string ModelText(const ModelSpec& c) {
  const auto qsa = c.KvLayerNumbers();
  std::string out = fmt::format(
      "model\n  {} layers of width {} in {} streams, vocabulary {}, up to {} tokens\n"
      "  {} linear-attention layers, {} full-attention layers ({})\n"
      "  attention: {} query heads, {} K/V heads of {}; selects {} tokens in selection blocks of "
      "{}\n"
      "  experts: {}, {} per token, and one shared\n",
      c.layer_count(), c.hidden, c.streams, c.vocab, c.max_positions, c.GdnLayers(), qsa.size(),
      fmt::join(qsa, ", "), c.qsa.query_heads, c.qsa.kv_heads, c.qsa.head_dim,
      c.qsa.budget_selection_blocks * c.qsa.selection_block_tokens, c.qsa.selection_block_tokens,
      c.moe.experts, c.moe.experts_per_token);
  if (c.ple) out += fmt::format("  n-gram memory in layers {}\n", fmt::join(c.ple->layers, ", "));
  return out + fmt::format("  draft head: {}\n", c.draft ? "yes" : "no");
}

std::string TensorText(const TensorTotals& totals) {
  std::string out = fmt::format("tensors: {} ({} bytes)\n", totals.all.count, totals.all.bytes);
  for (const auto& [name, group] : totals.by_dtype) {
    out += fmt::format("  {:<26}{:>8}{:>18}\n", name, group.count, group.bytes);
  }
  out += "  by owner\n";
  for (const auto& [name, group] : totals.by_owner) {
    out += fmt::format("  {:<26}{:>8}{:>18}\n", name, group.count, group.bytes);
  }
  return out + "quantisation: none\n";
}

std::string ScaleText(const Checkpoint& checkpoint, const std::optional<KvScales>& scales) {
  const auto layers = ListKvScales(checkpoint);
  const auto total = checkpoint.config().KvLayerNumbers().size();
  std::string out =
      fmt::format("K/V scales: {} of {} layers", LayersWithScales(layers, false), total);
  if (checkpoint.config().draft) {
    out += fmt::format(", draft {} of 1", LayersWithScales(layers, true));
  }
  out += "\n";
  for (const LayerScales& layer : layers) {
    if (!HasScales(layer)) continue;
    out += fmt::format("  {:<12}K {:.9g}  V {:.9g}  ({})\n",
                       layer.draft ? "draft" : fmt::format("layer {}", layer.layer), *layer.k,
                       *layer.v, layer.file);
  }
  if (scales) {
    out += fmt::format("  pack {}, weights {}\n", scales->pack_id, Name(scales->lineage.weights));
  }
  return out;
}

std::string TokenBytesText(const ModelSpec& config) {
  std::string out =
      fmt::format("bytes per token{:>15}{:>10}{:>12}\n", "target", "draft", "index keys");
  for (const TokenBytes& row : BytesPerToken(config)) {
    out += fmt::format("  {:<18}{:>10}{:>10}{:>12}\n", row.dtype, row.target, row.draft,
                       row.index_keys);
  }
  return out;
}

std::string ToText(const Checkpoint& checkpoint, const std::optional<KvScales>& scales,
                   bool checked_finite) {
  return Printable(checkpoint.dir().string()) + "\n" + ModelText(checkpoint.config()) +
         TensorText(TotalsOf(checkpoint)) + ScaleText(checkpoint, scales) +
         TokenBytesText(checkpoint.config()) + (checked_finite ? "every value is finite\n" : "");
}

/// The scales as a run would load them, if there is a sign of any.
Result<std::optional<KvScales>> LoadScales(const Checkpoint& checkpoint,
                                           const LineageOptions& lineage) {
  const auto layers = ListKvScales(checkpoint);
  const bool any =
      PathExists(checkpoint.dir() / kProvenanceFile) ||
      std::ranges::any_of(layers, [](const auto& layer) { return !layer.file.empty(); });
  if (!any) return std::optional<KvScales>();
  KV8_ASSIGN_OR_RETURN(KvScales scales,
                       LoadKvScales(checkpoint, std::nullopt, /*need_draft=*/false, lineage));
  NoteBinding(scales.lineage.weights, scales.lineage.accepted);
  return std::optional(std::move(scales));
}

Result<void> Inspect(const InspectOptions& options) {
  KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(options.dir));
  // What a run would refuse is refused here, by the same functions in the same order.
  KV8_ASSIGN_OR_RETURN(const auto scales, LoadScales(checkpoint, options.lineage));
  const EngineOptions run{.model = options.dir};
  if (auto plan = Engine::Plan(run); !plan.ok()) return std::move(plan).error();
  if (options.check_finite) {
    for (const auto& [name, view] : checkpoint.tensors()) {
      KV8_RETURN_IF_ERROR(CheckFinite(view, name, checkpoint.FileOf(name).string()));
    }
  }
  return options.json ? WriteJson(ToJson(checkpoint, scales, options.check_finite))
                      : WriteLines(ToText(checkpoint, scales, options.check_finite));
}

}  // namespace

CommandRun SetUpInspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("dir", options->dir, "Checkpoint directory or materialized view")
      ->required()
      ->check(NotEmpty());
  app.add_flag("--check-finite", options->check_finite,
               "Also read every weight and refuse NaN and infinity");
  options->lineage.hash.progress = ShowHashing();
  AddLineageFlags(app, options->lineage.accept, options->lineage.hash.recorded_only);
  AddJsonFlag(app, options->json);
  return [options] { return Inspect(*options); };
}

}  // namespace kv8
