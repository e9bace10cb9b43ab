// kv8 bench: how fast a configuration is, or two beside each other.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "arm_flags.h"
#include "base/file.h"
#include "base/output_path.h"
#include "commands.h"
#include "engine_flags.h"
#include "hash_progress.h"
#include "interrupt.h"
#include "output.h"
#include "plan/quantity.h"
#include "progress_printer.h"
#include "speed/bench.h"
#include "speed/report.h"

namespace kv8 {
namespace {

struct BenchFlags {
  BenchOptions bench;
  ArmFlags arms;
  DeviceFlags device;
  std::vector<std::string> workloads = {"matrix"};
  std::string memory;
  std::vector<std::string> servers;
  std::string served_model_name;
  std::filesystem::path output_dir;
  bool quiet = false;
  bool json = false;

  bool Runs(const std::string& workload) const {
    return std::ranges::find(workloads, workload) != workloads.end();
  }
};

BenchOptions OptionsOf(const BenchFlags& flags) {
  BenchOptions options = flags.bench;
  options.engine.device = flags.device.kind();
  options.engine.backend = flags.device.backend;
  options.engine.threads = flags.device.threads;
  if (!flags.quiet) options.engine.hash_progress = ShowHashing();
  options.a = flags.arms.A();
  if (!flags.arms.b.empty()) options.b = flags.arms.B();
  options.matrix = flags.Runs("matrix");
  options.converse = flags.Runs("conversations");
  options.structured = flags.Runs("structured");
  for (const std::string& url : flags.servers) {
    options.servers.push_back({.url = url, .model = flags.served_model_name});
  }
  if (!flags.memory.empty()) options.memory = ParseBytes(flags.memory).value();
  return options;
}

Result<void> WriteReport(const Json& report, const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return SystemError(dir, "create", error.value());
  KV8_RETURN_IF_ERROR(WriteFileAtomic(dir / "bench.json", DumpJson(report)));
  return WriteFileAtomic(dir / "bench.html", BenchHtml(report));
}

Result<void> RunBench(const BenchFlags& flags) {
  const BenchOptions options = OptionsOf(flags);
  if (!flags.output_dir.empty()) {
    KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(flags.output_dir, options.engine.model));
  }
  CatchInterrupts();
  ProgressPrinter printer;
  const auto progress = [&](std::uint64_t done, std::uint64_t all) {
    if (!flags.quiet && all > 0) printer.Show({"bench", done, all});
    return !Interrupted();
  };
  KV8_ASSIGN_OR_RETURN(const Json report, Bench(options, progress));
  if (!flags.output_dir.empty()) KV8_RETURN_IF_ERROR(WriteReport(report, flags.output_dir));
  return flags.json ? WriteJson(report) : WriteLines(BenchText(report));
}

void AddWorkloadFlags(CLI::App& app, BenchFlags& flags) {
  BenchOptions& bench = flags.bench;
  app.add_option("--workload", flags.workloads,
                 "What is run: matrix (prompts and decode by context and concurrency), "
                 "conversations (that grow turn by turn), structured (outputs of a JSON schema)")
      ->delimiter(',')
      ->check(OneOf({"matrix", "conversations", "structured"}))
      ->capture_default_str();
  app.add_option("--contexts", bench.contexts, "Tokens of the matrix's prompts")
      ->delimiter(',')
      ->check(WholeNumberWithin(1, INT32_MAX))
      ->capture_default_str();
  app.add_option("--concurrency", bench.sequences, "Sequences that run at once")
      ->delimiter(',')
      ->check(WholeNumberWithin(1, 4096))
      ->capture_default_str();
  app.add_option("--output-tokens", bench.output, "Tokens of each sequence that are timed")
      ->check(WholeNumberWithin(2, 1'000'000))
      ->capture_default_str();
  app.add_option("--repeats", bench.repeats, "Measurements of everything, after one to warm up")
      ->check(WholeNumberWithin(3, 1000))
      ->capture_default_str();
  app.add_option("--conversations", bench.conversations.count, "Conversations that grow")
      ->check(WholeNumberWithin(1, 4096))
      ->capture_default_str();
  app.add_option("--turns", bench.conversations.turns, "Turns of each")
      ->check(WholeNumberWithin(1, 4096))
      ->capture_default_str();
  app.add_option("--turn-tokens", bench.conversations.turn_tokens, "Tokens that a turn adds")
      ->check(WholeNumberWithin(1, INT32_MAX))
      ->capture_default_str();
  app.add_option("--corpus", bench.corpus,
                 "JSON Lines with {\"text\": ...} that prompts are made of; default: random ids, "
                 "whose drafts are accepted less often than a text's")
      ->check(NotEmpty());
  app.add_option("--seed", bench.seed,
                 "Of the prompts; default: 1, and another each time for servers, which may "
                 "remember what they were asked")
      ->check(WholeNumberWithin(0, UINT64_MAX));
}

void AddBenchEngineFlags(CLI::App& app, BenchFlags& flags) {
  EngineOptions& engine = flags.bench.engine;
  app.add_option("--model", engine.model, "Checkpoint directory, or a materialized one")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, engine.overlays);
  AddArmFlags(app, flags.arms);
  app.add_option("--speculative-tokens", engine.speculative_tokens,
                 "Tokens that the draft head proposes in each step")
      ->check(WholeNumberWithin(0, 5))
      ->capture_default_str();
  AddBatchedTokensFlag(app, engine.max_num_batched_tokens);
  app.add_option("--memory", flags.memory,
                 "Bytes that all engines may take, such as 24GB; cells that need more are skipped; "
                 "default: the device's")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto bytes = ParseBytes(text);
            return bytes.ok() ? std::string() : bytes.error().what;
          },
          ""));
  app.add_option("--kv-memory", engine.kv_memory,
                 "Bytes for the cache of the conversations; default: room for all of them at once")
      ->check(WholeNumberWithin(1, INT64_MAX));
  app.add_option("--prefix-cache-memory", engine.prefix_cache_memory,
                 "Bytes for states of the conversations' turns; 0: room for all of them")
      ->check(WholeNumberWithin(0, INT64_MAX))
      ->capture_default_str();
  AddTierFlags(app, engine.kv_host_memory, engine.kv_disk, engine.kv_disk_quota);
  AddTableCacheFlag(app, engine.table_cache);
  AddDeviceFlags(app, flags.device);
  AddLineageFlags(app, engine.accept_lineage, engine.trust_weights);
}

void AddServerFlags(CLI::App& app, BenchFlags& flags) {
  auto* const server =
      app.add_option("--server", flags.servers,
                     "URL of an OpenAI-compatible server to measure in place of an engine, such as "
                     "http://127.0.0.1:8000; a second one is B; --model is then the directory of "
                     "the served model's tokenizer.json")
          ->allow_extra_args(false)
          ->expected(1, 2)
          ->check(NotEmpty());
  app.add_option("--served-model-name", flags.served_model_name,
                 "The model to ask the servers for; default: the first that each lists")
      ->needs(server);
  app.add_option("--api-key", flags.bench.api_key,
                 "Sent to the servers as a bearer token; prefer the environment's KV8_API_KEY")
      ->envname("KV8_API_KEY");
}

}  // namespace

CommandRun SetUpBench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  AddServerFlags(app, *flags);
  AddBenchEngineFlags(app, *flags);
  AddWorkloadFlags(app, *flags);
  app.add_option("--output-dir", flags->output_dir, "Directory for bench.json and bench.html")
      ->check(NotEmpty());
  app.add_flag("--quiet", flags->quiet, "No progress on standard error");
  AddJsonFlag(app, flags->json);
  return [flags] { return RunBench(*flags); };
}

}  // namespace kv8
