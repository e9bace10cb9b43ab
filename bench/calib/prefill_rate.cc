// Tokens per second of the passes that calibration makes over a corpus, beside the same passes
// without counting and beside plain prefill: one document at a time. Prints Markdown.
//
//   prefill_rate MODEL CORPUS.jsonl cpu|cuda [TOKENS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string_view>
#include <thread>

#include "calib/document_runner.h"
#include "model/loaded_model.h"

namespace kv8::bench {
namespace {

constexpr std::uint64_t kTokens = 100'000;

struct Bench {
  LoadedModel model;
  Tokenizer tokenizer;
  CorpusFile file;
  DeviceKind device;
  std::uint64_t tokens;

  TokenSource Source() const {
    const ModelSpec& spec = model.model().spec;
    return TokenSource(
        {file}, tokenizer, spec.vocab,
        {.document_tokens = spec.max_positions, .truncate = true, .total_tokens = tokens});
  }
};

/// Tokens per second, what a first pass prepares left out.
Result<double> Measure(const Bench& bench, const PassSize& pass, bool observe) {
  KV8_ASSIGN_OR_RETURN(const CorpusTotals corpus, ScanCorpus(bench.Source()));
  const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  KV8_ASSIGN_OR_RETURN(
      DocumentRunner runner,
      DocumentRunner::Create(
          bench.device, bench.model.model(), {pass, corpus}, KvDType::kFp16,
          {.threads = threads, .with_draft = bench.model.with_draft(), .observe_kv = observe}));
  DocumentQueue queue(bench.Source());
  KV8_ASSIGN_OR_RETURN(const auto first, runner.Run(queue, true));
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t tokens = 0;
  for (;;) {
    KV8_ASSIGN_OR_RETURN(const auto done, runner.Run(queue, true));
    if (done.tokens == 0) break;
    tokens += done.tokens;
  }
  (void)runner.executor().Saturation();  // waits for the device
  if (runner.executor().failure()) return *runner.executor().failure();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(tokens) / seconds.count();
}

Result<void> Run(std::span<char*> arguments) {
  const std::filesystem::path model_dir = arguments[1];
  const std::string_view device = arguments[3];
  KV8_ASSIGN_OR_RETURN(LoadedModel model,
                       LoadedModel::Open({.dir = model_dir, .with_draft = std::nullopt}));
  KV8_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(model_dir / "tokenizer.json"));
  KV8_ASSIGN_OR_RETURN(CorpusFile file, IdentifyCorpusFile(arguments[2]));
  const Bench bench{std::move(model), std::move(tokenizer), std::move(file),
                    device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu,
                    arguments.size() > 4 ? std::strtoull(arguments[4], nullptr, 10) : kTokens};
  const PassSize alone{.rows = 512, .documents = 1}, preferred = PreferredPass(bench.device);
  KV8_ASSIGN_OR_RETURN(const double plain, Measure(bench, alone, false));
  KV8_ASSIGN_OR_RETURN(const double uncounted, Measure(bench, preferred, false));
  KV8_ASSIGN_OR_RETURN(const double counted, Measure(bench, preferred, true));
  fmt::print(
      "\n| prefill, target and draft, {} | rows | documents | tokens/s |\n"
      "| --- | --- | --- | --- |\n",
      device);
  fmt::print("| plain | {} | {} | {:.0f} |\n", alone.rows, alone.documents, plain);
  fmt::print("| plain | {} | {} | {:.0f} |\n", preferred.rows, preferred.documents, uncounted);
  fmt::print("| K and V counted: {:.0f}% of the same passes | {} | {} | {:.0f} |\n",
             100 * counted / uncounted, preferred.rows, preferred.documents, counted);
  return {};
}

}  // namespace
}  // namespace kv8::bench

int main(int count, char** arguments) {
  if (count < 4) {
    fmt::print(stderr, "usage: prefill_rate MODEL CORPUS.jsonl cpu|cuda [TOKENS]\n");
    return 2;
  }
  const auto done = kv8::bench::Run({arguments, static_cast<std::size_t>(count)});
  if (!done.ok()) fmt::print(stderr, "{}\n", done.error().ToString());
  return done.ok() ? 0 : 1;
}
