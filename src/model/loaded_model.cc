#include "model/loaded_model.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "base/sha256.h"
#include "family/bind_model.h"
#include "scalepack/kv_scales.h"

namespace kv8 {
namespace {

std::vector<StoreScales> InLayerOrder(const KvScales& scales, bool with_draft) {
  std::vector<StoreScales> layers;
  for (const KvScale& scale : scales.target) layers.push_back({scale.k, scale.v});
  if (with_draft) layers.push_back({scales.draft->k, scales.draft->v});
  return layers;
}

Result<void> CheckSource(const ModelSource& source, const ModelSpec& config) {
  if (source.scale_pack && source.kv_dtype != KvDType::kE4M3) {
    return Error{Code::kInvalidArgument, "a scale pack has no meaning without an E4M3 cache",
                 source.scale_pack->string(),
                 "add --kv-cache-dtype fp8_e4m3, or leave the scale pack out"};
  }
  if (source.with_draft.value_or(false) && !config.draft) {
    return Error{Code::kInvalidArgument,
                 "speculation needs an MTP head and this checkpoint has none", source.dir.string(),
                 "run without --speculative-tokens"};
  }
  return {};
}

}  // namespace

Result<LoadedModel> LoadedModel::Open(const ModelSource& source) {
  LoadedModel loaded;
  KV8_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(source.dir, source.overlays));
  loaded.checkpoint_ = std::make_unique<const Checkpoint>(std::move(checkpoint));
  const ModelSpec& config = loaded.checkpoint_->config();
  KV8_RETURN_IF_ERROR(CheckSource(source, config));
  const bool with_draft = source.with_draft.value_or(config.draft.has_value());
  loaded.with_draft_ = with_draft;
  if (source.kv_dtype == KvDType::kE4M3) {
    KV8_ASSIGN_OR_RETURN(const KvScales scales, LoadKvScales(*loaded.checkpoint_, source.scale_pack,
                                                             with_draft, source.lineage));
    loaded.scales_ = InLayerOrder(scales, with_draft);
    loaded.scale_pack_id_ = scales.pack_id;
    loaded.lineage_ = scales.lineage;
  }
  KV8_ASSIGN_OR_RETURN(Model model, BindModel(config, CheckpointSource(*loaded.checkpoint_)));
  loaded.model_ = std::make_unique<const Model>(std::move(model));
  return loaded;
}

Result<std::string> LoadedModel::Identity(const WeightsHashOptions& hash) const {
  KV8_ASSIGN_OR_RETURN(const Lineage lineage,
                       LineageOf(*checkpoint_, hash, lineage_.weights_sha256));
  std::string text = lineage.weights_sha256 + "\n" + JsonText(lineage.config) + "\n";
  for (const StoreScales& scales : scales_) text += fmt::format("{:a} {:a}\n", scales.k, scales.v);
  return Sha256Hex(text);
}

}  // namespace kv8
