// `kv8 calibrate`: ranges of K and V over a corpus, or a merge of such reports.
#include <fmt/format.h>

#include <map>

#include "calib/calibrate_model.h"
#include "commands.h"
#include "engine_flags.h"
#include "hash_progress.h"
#include "interrupt.h"
#include "output.h"
#include "printable.h"
#include "progress_printer.h"
#include "scalepack/compared_rules.h"

namespace kv8 {
namespace {

struct CalibrateOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> overlays;
  DeviceFlags device;
  CalibrationOptions calibration;
  std::vector<std::filesystem::path> merge;
  bool rule_given = false;  // --method, --percentile or --margin
  int save_seconds = 30;
  bool quiet = false;
  bool json = false;
};

Json SideSummary(const SideStatistics& side, const ScaleRule& rule) {
  Json json = SideToJson(side, rule);
  json.erase("histogram");
  return json;
}

Json HeldOutSummary(const CalibrationReport& report) {
  Json rules = Json::array();
  for (const RuleTotal& total : CompareRules(report)) {
    rules.push_back({{"rule", Describe(total.rule)},
                     {"clipped_at_least", total.clipped.at_least},
                     {"clipped_at_most", total.clipped.at_most},
                     {"relative_error", total.relative_error},
                     {"worst_relative_error", total.worst_relative_error}});
  }
  const HeldOut& held_out = *report.held_out;
  return {{"percent", held_out.percent},
          {"documents", held_out.measured.documents},
          {"tokens", held_out.measured.tokens},
          {"rules", rules}};
}

std::string HeldOutText(const CalibrationReport& report) {
  const MeasuredDocuments& measured = report.held_out->measured;
  std::string text = fmt::format(
      "{} held-out documents, {} tokens: values clipped; relative error of rounding, mean of sides "
      "and worst\n",
      measured.documents, measured.tokens);
  for (const RuleTotal& total : CompareRules(report)) {
    const ClippedCount& clipped = total.clipped;
    const std::string count = clipped.at_least == clipped.at_most
                                  ? fmt::to_string(clipped.at_least)
                                  : fmt::format("{} to {}", clipped.at_least, clipped.at_most);
    text += fmt::format("  {:22} {:>20}  {:.4f}%  {:.4f}%\n", Describe(total.rule), count,
                        100 * total.relative_error, 100 * total.worst_relative_error);
  }
  return text;
}

Json ToJson(const CalibrationReport& report, const std::filesystem::path& output) {
  Json layers = Json::array();
  for (const LayerStatistics& layer : report.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"k", SideSummary(layer.k, report.rule)},
                      {"v", SideSummary(layer.v, report.rule)}});
  }
  Json json = {{"report", output.string()},
               {"documents", report.documents},
               {"tokens", report.tokens},
               {"partial_corpus", report.partial_corpus},
               {"layers", layers}};
  WriteScaleRule(report.rule, &json);
  if (report.held_out) json["held_out"] = HeldOutSummary(report);
  return json;
}

std::string SideText(const SideStatistics& side, const ScaleRule& rule) {
  const std::string clipped =
      side.saturation_checked_count == 0
          ? "not measured"
          : fmt::format("{} of {}", side.saturated_count, side.saturation_checked_count);
  return fmt::format("max {:9.4f}  scale {:.8f}  clipped {}", side.max_abs, ScaleFor(side, rule),
                     clipped);
}

std::string ToText(const CalibrationReport& report, const std::filesystem::path& output) {
  std::string text;
  for (const LayerStatistics& layer : report.layers) {
    const char* const name = layer.layer == report.target_layers ? "draft" : "layer";
    text += fmt::format("{} {:3} K  {}\n", name, layer.layer, SideText(layer.k, report.rule));
    text += fmt::format("{} {:3} V  {}\n", name, layer.layer, SideText(layer.v, report.rule));
  }
  if (report.held_out) text += HeldOutText(report);
  text +=
      fmt::format("{} documents, {} tokens{}\n{}\n", report.documents, report.tokens,
                  report.partial_corpus ? " (part of the corpus)" : "", Printable(output.string()));
  return text;
}

Result<CalibrationReport> Measure(const CalibrateOptions& options) {
  CalibrationOptions calibration = options.calibration;
  calibration.save_interval = std::chrono::seconds(options.save_seconds);
  if (!options.quiet) calibration.hash.progress = ShowHashing();
  CatchInterrupts();
  ProgressPrinter printer;
  const CalibrationModel model{.dir = options.model,
                               .overlays = options.overlays,
                               .device = options.device.kind(),
                               .backend = options.device.backend,
                               .threads = options.device.threads};
  return CalibrateModel(model, calibration, [&](const CalibrationProgress& progress) {
    if (!options.quiet) printer.Show(progress);
    return !Interrupted();
  });
}

Result<void> Calibrate(const CalibrateOptions& options) {
  const std::filesystem::path& output = options.calibration.output;
  const auto rule = options.rule_given ? std::optional(options.calibration.rule) : std::nullopt;
  auto report =
      options.merge.empty() ? Measure(options) : MergeReportFiles(options.merge, output, rule);
  if (!report.ok()) return std::move(report).error();
  return options.json ? WriteJson(ToJson(*report, output)) : WriteLines(ToText(*report, output));
}

/// What to measure: --model and --corpus, with the limits.
void AddMeasureFlags(CLI::App& app, CalibrateOptions& options) {
  CalibrationOptions& calibration = options.calibration;
  auto* const model = app.add_option("--model", options.model, "Checkpoint directory");
  auto* const corpus = app.add_option("--corpus", calibration.corpus,
                                      R"(JSON Lines with {"text": ...} or {"token_ids": [...]})");
  auto* const merge = app.add_option("--merge", options.merge, "Merge these reports instead");
  AddOverlayFlag(app, options.overlays);
  model->needs(corpus)->check(NotEmpty());
  corpus->needs(model)->check(NotEmpty());
  merge->excludes(model)->excludes(corpus)->check(NotEmpty());
  app.add_option("--max-tokens", calibration.max_tokens, "Stop after this many tokens")
      ->check(WholeNumberWithin(1, UINT64_MAX))
      ->excludes(merge);
  app.add_option("--truncate", calibration.truncate,
                 "Cut longer documents to this many tokens; without it, one that the model cannot "
                 "hold is refused")
      ->check(WholeNumberWithin(1, INT64_MAX))
      ->excludes(merge);
  app.add_option("--saturation-tokens", calibration.saturation_tokens,
                 "Tokens of the second pass, which counts what an E4M3 cache clips; 0: none; "
                 "without it: all")
      ->check(WholeNumberWithin(0, UINT64_MAX))
      ->excludes(merge);
  app.add_option("--save-seconds", options.save_seconds,
                 "Save the unfinished run this often; 0: as often as possible")
      ->check(WholeNumberWithin(0, 86400))
      ->capture_default_str()
      ->excludes(merge);
  app.add_flag("--restart", calibration.restart, "Forget an unfinished run of this output")
      ->excludes(merge);
}

/// How scales follow from what was measured.
void AddRuleFlags(CLI::App& app, CalibrateOptions& options) {
  static const std::map<std::string, ScaleMethod> kMethods = {
      {"max", ScaleMethod::kMax},
      {"percentile", ScaleMethod::kPercentile},
      {"mse", ScaleMethod::kMse}};
  ScaleRule& rule = options.calibration.rule;
  app.add_option("--method", rule.method,
                 "What 448 stands for: \"max\", the largest magnitude seen (without the flag); "
                 "\"percentile\"; \"mse\", the least rounding error")
      ->transform(CLI::CheckedTransformer(kMethods).description("max|percentile|mse"));
  app.add_option("--percentile", rule.percentile, "Of --method percentile, such as 99.99")
      ->check(NumberWithin(0, 100));
  app.add_option("--margin", rule.margin, "Factor on what 448 stands for, such as 1.05")
      ->check(NumberWithin(1, kMaxMargin));
  app.add_option("--held-out", options.calibration.held_out_percent,
                 "Percentage of the documents, by their hash, that no scale is fitted to and every "
                 "method is judged by")
      ->check(WholeNumberWithin(1, kMaxHeldOutPercent))
      ->excludes("--merge");
}

}  // namespace

CommandRun SetUpCalibrate(CLI::App& app) {
  auto options = std::make_shared<CalibrateOptions>();
  AddMeasureFlags(app, *options);
  AddRuleFlags(app, *options);
  app.add_option("--output", options->calibration.output, "Report to write; must not exist")
      ->required()
      ->check(NotEmpty());
  AddDeviceFlags(app, options->device);
  app.add_flag("--quiet", options->quiet, "No progress on standard error");
  AddJsonFlag(app, options->json);
  app.final_callback([&app, options] {
    const bool percentile = options->calibration.rule.method == ScaleMethod::kPercentile;
    if (percentile != (app.count("--percentile") > 0)) {
      throw CLI::ValidationError("--percentile", "belongs to --method percentile, which needs it");
    }
    options->rule_given = app.count("--method") + app.count("--margin") > 0;
    if (app.count("--model") + app.count("--merge") == 0) {
      throw CLI::RequiredError("Exactly 1 option from [--model,--merge]");
    }
  });
  return [options] { return Calibrate(*options); };
}

}  // namespace kv8
