#include "proof/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "scalepack/lineage.h"

namespace kv8 {
namespace {

/// Changes when a measurement or its file changes its meaning.
constexpr int kPartFormat = 2;
constexpr std::size_t kNamedCopies = 10;

WeightsHashOptions HashOptions(const EngineOptions& engine) {
  return {.recorded_only = engine.trust_weights,
          .threads = engine.threads,
          .progress = engine.hash_progress};
}

/// A server may differ between two runs, and its schedules cannot be chosen.
bool IsBeyondServers(const Gate& gate, const VerifyOptions& options) {
  const std::string_view figure = gate.figure;
  return (options.a.server && (figure.starts_with("noise.") || figure.starts_with("schedule.a"))) ||
         (options.b.server && figure.starts_with("schedule.b"));
}

Result<std::vector<Gate>> LoadGates(const VerifyOptions& options) {
  if (!options.gates) {
    KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(DefaultGatesText(), "default gates"));
    auto gates = ParseGates(json, "default gates");
    if (gates.ok()) {
      std::erase_if(*gates, [&](const Gate& gate) { return IsBeyondServers(gate, options); });
    }
    return gates;
  }
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(*options.gates, kMaxGatesBytes));
  return ParseGates(json, options.gates->string());
}

Result<Overlap> CheckOverlap(const VerifyOptions& options, const RunInputs& inputs) {
  KV8_ASSIGN_OR_RETURN(const CorpusFile file, IdentifyCorpusFile(*options.calibration_corpus));
  KV8_ASSIGN_OR_RETURN(Overlap overlap, FindOverlap(file, inputs.items, *inputs.tokenizer));
  if (!overlap.copies.empty()) {
    return Error{
        Code::kInvalidArgument,
        fmt::format(
            "stand whole in the calibration corpus too: documents {}",
            fmt::join(std::span(overlap.copies)
                          .first(std::min<std::size_t>(kNamedCopies, overlap.copies.size())),
                      ", ")),
        options.corpus.string(), "evaluate other texts than those of the calibration"};
  }
  if (overlap.share() <= options.max_overlap) return overlap;
  return Error{Code::kInvalidArgument,
               fmt::format("{} of {} runs of {} tokens ({:.3f}%) stand in the calibration corpus "
                           "too, in: {}; at most {:.3f}% may",
                           overlap.shared, overlap.shingles, kShingleTokens, 100 * overlap.share(),
                           fmt::join(overlap.categories, ", "), 100 * options.max_overlap),
               options.corpus.string(),
               "evaluate other texts than those of the calibration; where both share a frame, such "
               "as declarations of tools, allow it with --max-overlap"};
}

Json ScalesJson(const KvScales& scales) {
  Json layers = Json::array();
  for (const KvScale& scale : scales.target) layers.push_back({scale.k, scale.v});
  if (scales.draft) layers.push_back({scales.draft->k, scales.draft->v});
  return layers;
}

}  // namespace

Result<RunInputs> ReadInputs(const VerifyOptions& options) {
  RunInputs inputs;
  KV8_ASSIGN_OR_RETURN(inputs.gates, LoadGates(options));
  KV8_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                       Tokenizer::Load(options.engine.model / "tokenizer.json"));
  inputs.tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer));
  KV8_ASSIGN_OR_RETURN(inputs.corpus, IdentifyCorpusFile(options.corpus));
  KV8_ASSIGN_OR_RETURN(inputs.items, ReadEvaluation(inputs.corpus, *inputs.tokenizer));
  if (options.calibration_corpus) {
    KV8_ASSIGN_OR_RETURN(inputs.overlap, CheckOverlap(options, inputs));
  }
  KV8_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                       Checkpoint::Open(options.engine.model, options.engine.overlays));
  inputs.checkpoint = std::make_unique<const Checkpoint>(std::move(checkpoint));
  KV8_ASSIGN_OR_RETURN(const Lineage lineage,
                       LineageOf(*inputs.checkpoint, HashOptions(options.engine)));
  inputs.lineage = {{"index_sha256", lineage.index_sha256}};
  WriteLineage(lineage, &inputs.lineage);
  return inputs;
}

Result<KvScales> ScalesOf(const RunInputs& inputs, const VerifyOptions& options,
                          const ArmSpec& arm) {
  const EngineOptions& engine = options.engine;
  const LineageOptions lineage{.accept = engine.accept_lineage, .hash = HashOptions(engine)};
  return LoadKvScales(*inputs.checkpoint, arm.scale_pack, engine.speculative_tokens > 0, lineage);
}

Result<Json> IdentityOf(const RunInputs& inputs, const VerifyOptions& options, const ArmSpec& arm) {
  const EngineOptions& engine = options.engine;
  Json scales;
  if (arm.dtype == KvDType::kE4M3) {
    KV8_ASSIGN_OR_RETURN(const KvScales loaded, ScalesOf(inputs, options, arm));
    scales = ScalesJson(loaded);
  }
  return Json{{"format", kPartFormat},
              {"checkpoint", inputs.lineage},
              {"corpus_sha256", inputs.corpus.sha256},
              {"kv_cache_dtype", static_cast<int>(arm.dtype)},
              {"scales", std::move(scales)},
              {"device", engine.device == DeviceKind::kCuda ? "cuda" : "cpu"},
              {"backend", engine.backend},
              {"speculative_tokens", engine.speculative_tokens},
              {"prefix_cache_memory", engine.prefix_cache_memory}};
}

Json ServedIdentityOf(const RunInputs& inputs, const std::string& url, const std::string& model) {
  return {{"format", kPartFormat},
          {"checkpoint", inputs.lineage},
          {"corpus_sha256", inputs.corpus.sha256},
          {"server", url},
          {"model", model}};
}

}  // namespace kv8
