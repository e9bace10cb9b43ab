// `kv8 inspect`: what a checkpoint holds.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "checkpoint/finite.h"
#include "commands.h"
#include "engine_flags.h"
#include "family/checkpoint.h"
#include "hash_progress.h"
#include "output.h"
#include "printable.h"
#include "scalepack/kv_scales.h"
#include "scalepack/scale_names.h"
#include "stored_tensors.h"

namespace kv8 {
namespace {

struct InspectOptions {
  std::filesystem::path dir;
  std::vector<std::filesystem::path> overlays;
  bool check_finite = false;
  bool verify = false;
  LineageOptions lineage;
  bool json = false;
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

std::vector<std::string> OverlayNames(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < checkpoint.parts().size(); ++i) {
    names.push_back(checkpoint.parts()[i].dir.string());
  }
  return names;
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

/// All that is shown.
struct Inspection {
  const Checkpoint& checkpoint;
  std::optional<KvScales> scales;
  std::vector<FormatTotals> formats;
  std::vector<std::string> extra;
  std::optional<std::vector<FileSum>> sums;
  bool checked_finite = false;
};

/// What a run with these scales would say of them; null without scales.
Json BindingJson(const std::optional<KvScales>& scales) {
  if (!scales) return Json();
  return {{"scale_pack_id", scales->pack_id},
          {"weights", Name(scales->lineage.weights)},
          {"accepted_lineage", scales->lineage.accepted}};
}

Json ToJson(const Inspection& shown) {
  const Checkpoint& checkpoint = shown.checkpoint;
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
              {"quantisation", QuantisationText(shown.formats)},
              {"formats", ToJson(shown.formats)},
              {"disagreements", checkpoint.disagreements()},
              {"extra_tensors", shown.extra},
              {"overlays", OverlayNames(checkpoint)},
              {"kv_scales", ToJson(ListKvScales(checkpoint))},
              {"kv_scales_binding", BindingJson(shown.scales)},
              {"bytes_per_token", std::move(bytes)}};
  if (shown.sums) out["files"] = ToJson(*shown.sums);
  if (shown.checked_finite) out["finite"] = true;
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

std::string FormatText(const Inspection& shown) {
  std::string out = fmt::format("quantisation: {}\n", QuantisationText(shown.formats));
  out += fmt::format("  {:<26}{:<28}{:>6}{:>10}{:>17}{:>8}\n", "matrices of", "layout", "group",
                     "count", "bytes", "bits");
  for (const FormatTotals& format : shown.formats) {
    out += fmt::format("  {:<26}{:<28}{:>6}{:>10}{:>17}{:>8.2f}\n", format.owner, format.layout,
                       format.group > 0 ? std::to_string(format.group) : "-", format.matrices,
                       format.bytes, format.bits_per_weight());
  }
  return out;
}

/// Disagreements, tensors of no use, files: a line each.
std::string RemarkText(const Inspection& shown) {
  constexpr std::size_t kShown = 20;
  std::string out;
  for (const std::string& line : shown.checkpoint.disagreements()) {
    out += fmt::format("disagrees: {}\n", Printable(line));
  }
  if (!shown.extra.empty()) {
    out += fmt::format("not used: {} tensors\n", shown.extra.size());
    for (std::size_t i = 0; i < std::min(kShown, shown.extra.size()); ++i) {
      out += fmt::format("  {}\n", Printable(shown.extra[i]));
    }
  }
  for (const std::string& name : OverlayNames(shown.checkpoint)) {
    out += fmt::format("overlay: {}\n", Printable(name));
  }
  for (const FileSum& sum : shown.sums.value_or(std::vector<FileSum>())) {
    out += fmt::format("{}  {}{}\n", sum.sha256, Printable(sum.file.string()),
                       sum.listed ? "  (as SHA256SUMS has it)" : "");
  }
  return out;
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
  return out;
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

std::string ToText(const Inspection& shown) {
  const Checkpoint& checkpoint = shown.checkpoint;
  return Printable(checkpoint.dir().string()) + "\n" + ModelText(checkpoint.config()) +
         TensorText(TotalsOf(checkpoint)) + FormatText(shown) + RemarkText(shown) +
         ScaleText(checkpoint, shown.scales) + TokenBytesText(checkpoint.config()) +
         (shown.checked_finite ? "every value is finite\n" : "");
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
  KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                       Checkpoint::Open(options.dir, options.overlays));
  TensorGaps gaps = GapsOf(checkpoint);
  if (gaps.missing.size() > 1) {
    Note(fmt::format("{} tensors are missing: {}", gaps.missing.size(),
                     Printable(fmt::format("{}", fmt::join(gaps.missing, ", ")))));
  }
  // What a run would refuse is refused here, by the same functions in the same order.
  KV8_ASSIGN_OR_RETURN(auto scales, LoadScales(checkpoint, options.lineage));
  const EngineOptions run{.model = options.dir, .overlays = options.overlays};
  if (auto plan = Engine::Plan(run); !plan.ok()) return std::move(plan).error();
  if (options.check_finite) {
    for (const auto& [name, view] : checkpoint.tensors()) {
      KV8_RETURN_IF_ERROR(CheckFinite(view, name, checkpoint.FileOf(name).string()));
    }
  }
  Inspection shown{.checkpoint = checkpoint,
                   .scales = std::move(scales),
                   .formats = FormatsOf(checkpoint),
                   .extra = std::move(gaps.extra),
                   .checked_finite = options.check_finite};
  if (options.verify) {
    KV8_ASSIGN_OR_RETURN(shown.sums, VerifyFiles(checkpoint));
  }
  return options.json ? WriteJson(ToJson(shown)) : WriteLines(ToText(shown));
}

}  // namespace

CommandRun SetUpInspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("dir", options->dir, "Checkpoint directory or materialized view")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, options->overlays);
  app.add_flag("--verify", options->verify,
               "Also read every file of weights and show its SHA-256; refuse one that differs from "
               "a SHA256SUMS beside it");
  app.add_flag("--check-finite", options->check_finite,
               "Also read every weight and refuse NaN and infinity");
  options->lineage.hash.progress = ShowHashing();
  AddLineageFlags(app, options->lineage.accept, options->lineage.hash.recorded_only);
  AddJsonFlag(app, options->json);
  return [options] { return Inspect(*options); };
}

}  // namespace kv8
