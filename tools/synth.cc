// `kv8 synth`: a checkpoint of any size and format, of random weights or of another's.
#include "synth/synth.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "hash_progress.h"
#include "interrupt.h"
#include "output.h"
#include "printable.h"

namespace kv8 {
namespace {

struct SynthFlags {
  SynthRequest request;
  std::filesystem::path from;
  StoredFormat weights;
  std::optional<WeightFormat> table;  // nullopt, here and below: as published with these weights
  std::optional<WeightFormat> draft;
  bool json = false;
};

const std::map<std::string, StoredFormat> kWeights = {
    {"bf16", {WeightFormat::kBf16}},
    {"fp16", {WeightFormat::kFp16}},
    {"fp8", {WeightFormat::kFp8}},
    {"nvfp4", {WeightFormat::kNvfp4}},
    {"int4-g32", {WeightFormat::kInt4, 32, false}},
    {"int4-g128", {WeightFormat::kInt4, 128, false}},
    {"int4-sym-g32", {WeightFormat::kInt4, 32, true}},
    {"int4-sym-g128", {WeightFormat::kInt4, 128, true}},
};

double BitsPerWeight(std::int64_t bytes, std::int64_t weights) {
  return weights == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
}

Json ToJson(const SynthSummary& summary, const std::filesystem::path& output) {
  Json modules = Json::object();
  for (const auto& [name, module] : summary.modules) {
    modules[name] = {{"bytes", module.bytes},
                     {"weights", module.weights},
                     {"bits_per_weight", BitsPerWeight(module.bytes, module.weights)}};
  }
  return {{"directory", output.string()},     {"files", summary.files},
          {"tensors", summary.tensors},       {"bytes", summary.bytes},
          {"hole_bytes", summary.hole_bytes}, {"modules", std::move(modules)}};
}

std::string ToText(const SynthSummary& summary, const std::filesystem::path& output) {
  std::string out = fmt::format("{}: {} tensors in {} files, {} bytes, {} of them holes\n",
                                Printable(output.string()), summary.tensors, summary.files,
                                summary.bytes, summary.hole_bytes);
  for (const auto& [name, module] : summary.modules) {
    out += fmt::format("  {:<26}{:>18} bytes{:>8.3f} bits per weight\n", name, module.bytes,
                       BitsPerWeight(module.bytes, module.weights));
  }
  return out;
}

Result<void> RunSynth(SynthFlags flags) {
  SynthRequest& request = flags.request;
  if (!flags.from.empty()) request.from = flags.from;
  request.formats = PublishedWith(flags.weights);
  if (flags.table) request.formats.table = *flags.table;
  if (flags.draft) request.formats.draft_experts = {*flags.draft};
  CatchInterrupts();
  request.progress = ShowWriting();
  auto summary = Synthesise(request);
  if (!summary.ok()) return Interrupted() ? InterruptedError() : std::move(summary).error();
  return flags.json ? WriteJson(ToJson(*summary, request.output))
                    : WriteLines(ToText(*summary, request.output));
}

void AddModelFlags(CLI::App& app, SynthFlags& flags) {
  Dimensions& dimensions = flags.request.dimensions;
  CLI::Option* from =
      app.add_option("--from", flags.from,
                     "Checkpoint whose weights, dimensions and tokenizer to take; without it the "
                     "weights are random and the tokenizer is the bundled one");
  from->check(NotEmpty());
  app.add_option("--dims", dimensions.source,
                 "released, tiny (the bundled model's) or the path of a config.json")
      ->capture_default_str()
      ->check(NotEmpty())
      ->excludes(from);
  app.add_option("--layers", dimensions.layers, "Only the first N, or as many; default: all")
      ->check(WholeNumberWithin(1, 1024));
  app.add_option("--table-rows", dimensions.table_rows,
                 "About that many in each n-gram table; default: as --dims says")
      ->check(WholeNumberWithin(1, std::uint64_t{1} << 30))
      ->excludes(from);
  app.add_flag_callback(
      "--without-draft", [&dimensions] { dimensions.draft = false; },
      "Leave the draft head (MTP) out");
  app.add_flag("--sparse", flags.request.sparse,
               "Write the first 1024 rows of each part of an n-gram table and leave the others as "
               "holes of the file, which read as zeros and take no place on the disk")
      ->excludes(from);
  app.add_option("--seed", flags.request.seed, "Of the random weights")
      ->capture_default_str()
      ->check(WholeNumberWithin(0, ~std::uint64_t{0}))
      ->excludes(from);
}

void AddFormatFlags(CLI::App& app, SynthFlags& flags) {
  using Choices = std::map<std::string, std::optional<WeightFormat>>;
  AddChoice(app, "--weights", flags.weights, kWeights,
            "Format of the routed experts: FP8 in blocks of 128 x 128, ModelOpt's NVFP4, or "
            "compressed-tensors' INT4 by group, sym without zero points; fp16 is that of all "
            "other weights too, which are BF16 otherwise");
  AddChoice(app, "--table-weights", flags.table,
            Choices{{"bf16", WeightFormat::kBf16},
                    {"fp8", WeightFormat::kFp8},
                    {"nvfp4", WeightFormat::kNvfp4}},
            "Format of the n-gram tables; default: fp8 beside fp8 and nvfp4, else plain");
  AddChoice(app, "--draft-weights", flags.draft,
            Choices{{"bf16", WeightFormat::kBf16}, {"fp8", WeightFormat::kFp8}},
            "Format of the draft's experts; default: fp8 beside fp8, else plain");
}

}  // namespace

CommandRun SetUpSynth(CLI::App& app) {
  auto flags = std::make_shared<SynthFlags>();
  SynthRequest& request = flags->request;
  app.add_option("--output-dir", request.output, "Checkpoint to write; must not exist")
      ->required()
      ->check(NotEmpty());
  AddModelFlags(app, *flags);
  AddFormatFlags(app, *flags);
  app.add_option("--shard-size", request.shard_bytes,
                 "Most bytes of tensors in a file; one that is larger gets a file of its own")
      ->default_str("5 GB")
      ->check(WholeNumberWithin(1, std::uint64_t{1} << 50));
  app.add_option("--threads", request.threads, "Threads; 0: one per hardware thread")
      ->capture_default_str()
      ->check(WholeNumberWithin(0, 1024));
  AddJsonFlag(app, flags->json);
  return [flags] { return RunSynth(*flags); };
}

}  // namespace kv8
