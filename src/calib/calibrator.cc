#include "calib/calibrator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "calib/kv_statistics.h"
#include "calib/partial_state.h"
#include "calib/report_output.h"
#include "calib/token_source.h"
#include "device/device.h"

namespace kv8 {
namespace {

using Clock = std::chrono::steady_clock;

std::string_view Name(CalibrationPass pass) {
  if (pass == CalibrationPass::kHeldOut) return "held out";
  return pass == CalibrationPass::kRanges ? "ranges" : "saturation";
}

template <class T>
Json ToJson(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Everything a report depends on; paths and thread counts are not among it.
Result<Json> IdentityOf(const CalibrationInputs& inputs, const CalibrationOptions& options,
                        const std::vector<CorpusFile>& files, const CalibrationReport& report) {
  const std::filesystem::path dir = inputs.model.checkpoint().dir();
  KV8_ASSIGN_OR_RETURN(const std::string config, Sha256File(dir / "config.json"));
  KV8_ASSIGN_OR_RETURN(const std::string tokenizer, Sha256File(dir / "tokenizer.json"));
  Json corpus = Json::array();
  for (const CorpusFile& file : files) corpus.push_back(file.sha256);
  return Json{{"scale_rule", Describe(options.rule)},
              {"held_out_percent", options.held_out_percent},
              {"config_sha256", config},
              {"tokenizer_sha256", tokenizer},
              {"index_sha256", report.base.index_sha256},
              {"kv_weights_sha256", report.base.kv_weights_sha256},
              {"weights_sha256", report.base.weights_sha256},
              {"corpus_sha256", corpus},
              {"op_backend",
               inputs.device == DeviceKind::kCuda ? "cuda " + inputs.backend : inputs.backend},
              {"max_tokens", ToJson(options.max_tokens)},
              {"truncate", ToJson(options.truncate)},
              {"saturation_tokens", ToJson(options.saturation_tokens)}};
}

Result<void> CheckOptions(const CalibrationInputs& inputs, const CalibrationOptions& options) {
  const auto bad = [](std::string_view flag, std::string what) {
    return Error{Code::kInvalidArgument, std::move(what), std::string(flag), {}};
  };
  const ModelSpec& config = inputs.model.model().spec;
  if (options.corpus.empty()) return bad("--corpus", "no corpus file is named");
  if (options.max_tokens == 0u) return bad("--max-tokens", "must be at least 1");
  if (options.truncate && (*options.truncate < 1 || *options.truncate > config.max_positions)) {
    return bad("--truncate", fmt::format("is {}; the model has 1 to {} positions",
                                         *options.truncate, config.max_positions));
  }
  if (inputs.tokenizer.vocab_size() > static_cast<std::size_t>(config.vocab)) {
    return Error{Code::kMismatch,
                 fmt::format("the tokenizer has {} tokens, the model {}",
                             inputs.tokenizer.vocab_size(), config.vocab),
                 inputs.model.checkpoint().dir().string(),
                 "use the checkpoint's own tokenizer.json"};
  }
  KV8_RETURN_IF_ERROR(CheckScaleRule(options.rule, "scale rule"));
  return CheckReportOutput(options.output);
}

/// Of `layers`, with nothing seen.
std::vector<LayerStatistics> Unseen(const std::vector<LayerStatistics>& layers) {
  std::vector<LayerStatistics> unseen;
  for (const LayerStatistics& layer : layers) unseen.push_back({.layer = layer.layer});
  return unseen;
}

Result<CalibrationReport> EmptyReport(const CalibrationInputs& inputs,
                                      const std::vector<CorpusFile>& files,
                                      const CalibrationOptions& options) {
  const Checkpoint& checkpoint = inputs.model.checkpoint();
  CalibrationReport report;
  KV8_ASSIGN_OR_RETURN(report.base, LineageOf(checkpoint, options.hash));
  report.layer_prefix = checkpoint.layer_prefix();
  report.target_layers = checkpoint.config().layer_count();
  for (const CorpusFile& file : files) report.corpus_sha256.push_back(file.sha256);
  for (int i = 0; i < inputs.model.model().spec.KvLayers(/*with_draft=*/true); ++i) {
    report.layers.push_back({.layer = inputs.model.model().spec.LayerOfKv(i)});
  }
  report.rule = options.rule;
  if (options.held_out_percent > 0) {
    report.held_out = HeldOut{options.held_out_percent, {.layers = Unseen(report.layers)}};
  }
  return report;
}

/// Both sides of every layer must allow a scale.
Result<void> CheckScalable(const CalibrationReport& report) {
  for (const LayerStatistics& layer : report.layers) {
    for (const SideStatistics* side : {&layer.k, &layer.v}) {
      if (ScaleFor(*side, report.rule) > 0) continue;
      const std::string_view why =
          side->count == 0     ? "saw no value (the draft head needs documents of 2 tokens or more)"
          : side->max_abs == 0 ? "was zero everywhere"
                               : "is zero up to the percentile";
      return Error{Code::kInvalidArgument,
                   fmt::format("layer {} {} {}, so it has no scale", layer.layer,
                               side == &layer.k ? "K" : "V", why),
                   "calibration corpus", "use a larger corpus, or check the weights"};
    }
  }
  return {};
}

/// One run: the passes, and saving on the way.
class Run {
 public:
  Run(const CalibrationInputs& inputs, const CalibrationOptions& options,
      std::vector<CorpusFile> files, const ProgressFn& progress)
      : inputs_(inputs),
        options_(options),
        model_(inputs.model.model()),
        files_(std::move(files)),
        progress_(progress) {}

  /// Reads the unfinished run if there is one, checks the corpus, and saves: a disk that takes no
  /// file is found now.
  Result<void> Start() {
    if (inputs_.device == DeviceKind::kCuda) {
      KV8_ASSIGN_OR_RETURN(device_, Device::Open());
    }
    KV8_ASSIGN_OR_RETURN(state_.report, EmptyReport(inputs_, files_, options_));
    KV8_ASSIGN_OR_RETURN(identity_, IdentityOf(inputs_, options_, files_, state_.report));
    if (!options_.restart) {
      KV8_ASSIGN_OR_RETURN(auto saved, LoadPartial(PartialPath(options_.output), identity_));
      if (saved) state_ = std::move(*saved);
    }
    TokenSource whole(files_, inputs_.tokenizer, model_.spec.vocab, Limits());
    KV8_ASSIGN_OR_RETURN(totals_, ScanCorpus(std::move(whole)));
    KV8_RETURN_IF_ERROR(CheckHeldOut());
    state_.report.partial_corpus = totals_.left_out;
    return Save();
  }

  Result<CalibrationReport> Finish() {
    if (state_.pass == CalibrationPass::kRanges) {
      KV8_RETURN_IF_ERROR(MeasureRanges(state_.report));
      auto scalable = CheckScalable(state_.report);
      if (!scalable.ok()) RemovePartial();  // to go on would end here again
      KV8_RETURN_IF_ERROR(scalable);
      KV8_RETURN_IF_ERROR(Begin(CalibrationPass::kHeldOut));
    }
    if (state_.pass == CalibrationPass::kHeldOut) {
      auto& held_out = state_.report.held_out;
      if (held_out) KV8_RETURN_IF_ERROR(MeasureRanges(held_out->measured));
      KV8_RETURN_IF_ERROR(Begin(CalibrationPass::kSaturation));
    }
    if (SaturationTokens() > 0) KV8_RETURN_IF_ERROR(MeasureSaturation());
    KV8_RETURN_IF_ERROR(WriteReport(options_.output, state_.report));
    RemovePartial();
    return std::move(state_.report);
  }

 private:
  TokenLimits Limits() const {
    TokenLimits limits;
    limits.document_tokens = options_.truncate.value_or(model_.spec.max_positions);
    limits.truncate = options_.truncate.has_value();
    if (options_.max_tokens) limits.total_tokens = *options_.max_tokens;
    limits.held_out_percent = options_.held_out_percent;
    return limits;
  }

  Result<void> CheckHeldOut() const {
    const std::uint64_t held_out = totals_.held_out_documents;
    if (options_.held_out_percent == 0 || (held_out > 0 && held_out < totals_.documents)) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("of {} documents, {}% by their hash are {}", totals_.documents,
                             options_.held_out_percent, held_out),
                 "calibration corpus", "use a larger corpus, or another percentage"};
  }

  Result<void> Begin(CalibrationPass pass) {
    state_.pass = pass;
    state_.position = {};
    return Save();
  }

  std::uint64_t SaturationTokens() const {
    return std::min(options_.saturation_tokens.value_or(totals_.tokens), totals_.tokens);
  }

  Result<void> Save() {
    last_save_ = Clock::now();
    return SavePartial(PartialPath(options_.output), identity_, state_);
  }

  /// A leftover is harmless: the output exists, or the corpus leads to none.
  void RemovePartial() const {
    std::error_code ignored;
    std::filesystem::remove(PartialPath(options_.output), ignored);
  }

  Result<DocumentRunner> MakeRunner(KvDType dtype, const CorpusTotals& corpus,
                                    ExecutorLimits limits) const {
    limits.threads = inputs_.threads;
    limits.with_draft = inputs_.model.with_draft();
    limits.backend = inputs_.backend;
    const PassSize pass = inputs_.pass.value_or(PreferredPass(inputs_.device));
    return DocumentRunner::Create(inputs_.device, model_, {pass, corpus}, dtype, std::move(limits));
  }

  /// Of the documents of the state's pass.
  Result<void> MeasureRanges(MeasuredDocuments& measured) {
    const bool on_cpu = inputs_.device == DeviceKind::kCpu;
    KV8_ASSIGN_OR_RETURN(DocumentRunner runner, MakeRunner(on_cpu ? KvDType::kFp32 : KvDType::kFp16,
                                                           totals_, {.observe_kv = true}));
    std::vector<HeadMagnitudes> heads(measured.layers.size() * 2 *
                                      static_cast<std::size_t>(model_.spec.qsa.kv_heads));
    const auto ended = [&](const MeasuredDocument& run) {
      const TokenDocument& document = run.document;
      return AddDocument(run.max_bits, {document.category, document.where, document.ids.size()},
                         model_.spec.layer_count(), measured);
    };
    const auto collect = [&] {
      runner.executor().TakeKvMagnitudes(heads);
      AddMagnitudes(heads, measured.layers);
    };
    TokenLimits limits = Limits();
    limits.part = state_.pass == CalibrationPass::kHeldOut ? CorpusPart::kHeldOut
                  : state_.report.held_out                 ? CorpusPart::kFitted
                                                           : CorpusPart::kAll;
    return RunDocuments(runner, limits, totals_.tokens, ended, collect);
  }

  Result<void> MeasureSaturation() {
    std::vector<StoreScales> scales;
    for (const LayerStatistics& layer : state_.report.layers) {
      const ScaleRule& rule = options_.rule;
      scales.push_back({ScaleFor(layer.k, rule), ScaleFor(layer.v, rule)});
    }
    CorpusTotals corpus = totals_;
    corpus.tokens = SaturationTokens();
    KV8_ASSIGN_OR_RETURN(DocumentRunner runner,
                         MakeRunner(KvDType::kE4M3, corpus, {.scales = std::move(scales)}));
    std::vector<SaturationCount> counted(state_.report.layers.size());
    std::uint64_t target_rows = 0, draft_rows = 0;  // since the last collect
    const auto ended = [&](const MeasuredDocument& measured) -> Result<void> {
      target_rows += measured.document.ids.size();
      draft_rows += measured.document.ids.size() - 1;
      return {};
    };
    const auto collect = [&] {
      AddSaturation(std::exchange(target_rows, 0), std::exchange(draft_rows, 0),
                    runner.executor().Saturation(), counted);
    };
    TokenLimits limits = Limits();
    limits.total_tokens = SaturationTokens();
    return RunDocuments(runner, limits, SaturationTokens(), ended, collect);
  }

  /// Adds what the cache counted since `counted`, and what it stored in that time.
  void AddSaturation(std::uint64_t target_rows, std::uint64_t draft_rows,
                     const std::vector<SaturationCount>& now,
                     std::vector<SaturationCount>& counted) {
    const QsaConfig& qsa = model_.spec.qsa;
    const std::uint64_t row_values =
        static_cast<std::uint64_t>(qsa.kv_heads) * static_cast<std::uint64_t>(qsa.head_dim);
    for (std::size_t i = 0; i < now.size(); ++i) {
      LayerStatistics& layer = state_.report.layers[i];
      const bool draft = layer.layer == model_.spec.layer_count();
      const std::uint64_t values = (draft ? draft_rows : target_rows) * row_values;
      layer.k.saturation_checked_count += values;
      layer.v.saturation_checked_count += values;
      layer.k.saturated_count += now[i].k - counted[i].k;
      layer.v.saturated_count += now[i].v - counted[i].v;
    }
    counted = now;
  }

  bool SaveIsDue() const { return Clock::now() - last_save_ >= options_.save_interval; }

  /// The rest of a pass over the corpus, from state_.position on: `ended` takes each document,
  /// `collect` what the device has counted over all documents since the last time. When a save is
  /// due, no document begins before the unfinished ones are done and all is saved.
  template <class Ended, class Collect>
  Result<void> RunDocuments(DocumentRunner& runner, const TokenLimits& limits, std::uint64_t total,
                            const Ended& ended, const Collect& collect) {
    DocumentQueue queue(
        TokenSource(files_, inputs_.tokenizer, model_.spec.vocab, limits, state_.position));
    std::uint64_t done = state_.position.tokens;
    const auto tell = [&] { return progress_({Name(state_.pass), done, total}); };
    if (!tell()) return Cancelled();
    for (;;) {
      KV8_ASSIGN_OR_RETURN(const DocumentRunner::Pass pass,
                           runner.Run(queue, runner.idle() || !SaveIsDue()));
      if (pass.tokens == 0) break;
      for (const MeasuredDocument& measured : pass.ended) {
        KV8_RETURN_IF_ERROR(ended(measured));
        const SourcePosition& end = measured.document.end;
        // With what was passed over before it, which needs no pass of the model.
        done += end.tokens - state_.position.tokens - measured.document.ids.size();
        state_.position = end;
      }
      done += static_cast<std::uint64_t>(pass.tokens);
      if (!tell()) return Cancelled();
      if (runner.idle() && SaveIsDue()) KV8_RETURN_IF_ERROR(Collected(runner, collect, true));
    }
    return Collected(runner, collect, false);
  }

  template <class Collect>
  Result<void> Collected(DocumentRunner& runner, const Collect& collect, bool save) {
    collect();
    if (runner.executor().failure()) return *runner.executor().failure();
    return save ? Save() : Result<void>();
  }

  Error Cancelled() const {
    return Error{Code::kCancelled,
                 fmt::format("stopped during the {} pass after {} documents", Name(state_.pass),
                             state_.position.documents),
                 PartialPath(options_.output).string(),
                 "run the same command again to go on from the last save"};
  }

  const CalibrationInputs& inputs_;
  const CalibrationOptions& options_;
  const Model& model_;
  /// The GPU, opened before the first runner and until after the last: it takes longer to open than
  /// many passes take.
  std::unique_ptr<Device> device_;
  std::vector<CorpusFile> files_;
  const ProgressFn& progress_;
  Json identity_;
  CorpusTotals totals_;
  PartialState state_;
  Clock::time_point last_save_;
};

}  // namespace

Result<CalibrationReport> Calibrate(const CalibrationInputs& inputs,
                                    const CalibrationOptions& options, const ProgressFn& progress) {
  KV8_RETURN_IF_ERROR(CheckOptions(inputs, options));
  std::vector<CorpusFile> files;
  for (const std::filesystem::path& path : options.corpus) {
    KV8_ASSIGN_OR_RETURN(CorpusFile file, IdentifyCorpusFile(path));
    files.push_back(std::move(file));
  }
  Run run(inputs, options, std::move(files), progress);
  KV8_RETURN_IF_ERROR(run.Start());
  return run.Finish();
}

Result<CalibrationReport> MergeReportFiles(const std::vector<std::filesystem::path>& reports,
                                           const std::filesystem::path& output,
                                           const std::optional<ScaleRule>& rule) {
  KV8_RETURN_IF_ERROR(CheckReportOutput(output));
  std::vector<CalibrationReport> inputs;
  for (const std::filesystem::path& path : reports) {
    KV8_ASSIGN_OR_RETURN(CalibrationReport report, ReadReport(path));
    inputs.push_back(std::move(report));
  }
  KV8_ASSIGN_OR_RETURN(CalibrationReport merged, MergeReports(inputs));
  if (rule && *rule != merged.rule) {
    KV8_RETURN_IF_ERROR(CheckScaleRule(*rule, "scale rule"));
    ApplyRule(*rule, &merged);
    KV8_RETURN_IF_ERROR(CheckScalable(merged));
  }
  KV8_RETURN_IF_ERROR(WriteReport(output, merged));
  return merged;
}

}  // namespace kv8
