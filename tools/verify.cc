// kv8 verify: what one cache costs beside another, measured on the same items.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "arm_flags.h"
#include "commands.h"
#include "engine_flags.h"
#include "hash_progress.h"
#include "interrupt.h"
#include "output.h"
#include "progress_printer.h"
#include "proof/verify.h"

namespace kv8 {
namespace {

struct VerifyFlags {
  VerifyOptions verify;
  DeviceFlags device;
  ArmFlags arms{.b = "fp8_e4m3"};
  ServerSpec server;  // B's; empty URL: none
  ServerSpec a_server;
  std::string api_key;
  int timeout = 600;  // seconds
  bool quiet = false;
  bool json = false;
};

/// An arm that `server` runs, or else `local`.
ArmSpec ServedOr(ServerSpec server, const VerifyFlags& flags, ArmSpec local) {
  if (server.url.empty()) return local;
  server.client.api_key = flags.api_key;
  server.client.limits.head = std::chrono::seconds(flags.timeout);
  server.client.limits.between_bytes = server.client.limits.head;
  return {.dtype = {}, .scale_pack = {}, .server = std::move(server)};
}

VerifyOptions OptionsOf(const VerifyFlags& flags) {
  VerifyOptions options = flags.verify;
  options.engine.device = flags.device.kind();
  options.engine.backend = flags.device.backend;
  options.engine.threads = flags.device.threads;
  if (!flags.quiet) options.engine.hash_progress = ShowHashing();
  options.a = ServedOr(flags.a_server, flags, flags.arms.A());
  options.b = ServedOr(flags.server, flags, flags.arms.B());
  return options;
}

std::string Size(const Json& value) {
  return value.is_null() ? std::string("not known") : fmt::format("{:.4g}", value.get<double>());
}

std::string VerdictLine(const Json& verdict) {
  const std::string spread =
      verdict.contains("p")
          ? fmt::format("p {}", Size(verdict["p"]))
          : fmt::format("95% {} to {}", Size(verdict["low"]), Size(verdict["high"]));
  return fmt::format("{}: {} (A {}, B {}, {} pairs, {}; smallest effect {})\n",
                     verdict["what"].get<std::string>(), verdict["outcome"].get<std::string>(),
                     Size(verdict["a"]), Size(verdict["b"]), verdict["pairs"].get<std::uint64_t>(),
                     spread, Size(verdict["smallest_effect"]));
}

std::string ToText(const Json& report, const std::filesystem::path& dir) {
  std::string text;
  for (const Json& verdict : report["verdicts"]) text += VerdictLine(verdict);
  for (const Json& gate : report["gates"]) {
    text += fmt::format("{}  {}\n", gate["passed"].get<bool>() ? "passed" : "FAILED",
                        gate["name"].get<std::string>());
  }
  return text + fmt::format("{}\n", (dir / "report.json").string());
}

Result<void> RunVerify(const VerifyFlags& flags) {
  const VerifyOptions options = OptionsOf(flags);
  CatchInterrupts();
  ProgressPrinter printer;
  const auto progress = [&](std::uint64_t done, std::uint64_t all) {
    if (!flags.quiet && all > 0) printer.Show({"verify", done, all});
    return !Interrupted();
  };
  KV8_ASSIGN_OR_RETURN(const VerifyResult result, Verify(options, progress));
  KV8_RETURN_IF_ERROR(flags.json ? WriteJson(result.report)
                                 : WriteLines(ToText(result.report, options.output_dir)));
  if (result.failures.empty()) return {};
  return Error{Code::kMismatch, fmt::format("{}", fmt::join(result.failures, "; ")),
               (options.output_dir / "report.json").string(),
               "read the report; a gate's limit stands in the file of --gates"};
}

void AddServerFlags(CLI::App& app, VerifyFlags& flags) {
  app.add_option("--server", flags.server.url,
                 "URL of an OpenAI-compatible server that runs B with the tokenizer of --model")
      ->check(NotEmpty())
      ->excludes("--b");
  app.add_option("--a-server", flags.a_server.url, "URL of a server that runs A")
      ->check(NotEmpty())
      ->excludes("--a")
      ->excludes("--a-scale-pack");
  app.add_option("--server-model", flags.server.model,
                 "Name of B's model there; default: the only one that the server lists")
      ->needs("--server");
  app.add_option("--a-server-model", flags.a_server.model, "Name of A's model there")
      ->needs("--a-server");
  app.add_option("--server-api-key", flags.api_key,
                 "Key for the servers; prefer the environment variable")
      ->envname("KV8_SERVER_API_KEY");
  app.add_option("--server-timeout", flags.timeout,
                 "Seconds that a server may take to begin an answer, and between its bytes")
      ->check(WholeNumberWithin(1, 86'400))
      ->capture_default_str();
}

void AddCorpusFlags(CLI::App& app, VerifyOptions& verify) {
  app.add_option("--corpus", verify.corpus,
                 R"(JSON Lines with {"text": ...}, and "answer", "depth", "tool" for questions)")
      ->required()
      ->check(NotEmpty());
  app.add_option("--calibration-corpus", verify.calibration_corpus,
                 "What the scales were measured on: texts that both corpora have are refused; "
                 "default: not looked for")
      ->check(NotEmpty());
  app.add_option("--max-overlap", verify.max_overlap,
                 "Share of all runs of 64 tokens that both corpora may have; a document that the "
                 "calibration has whole is refused at any")
      ->check(NumberWithin(0, 1))
      ->capture_default_str();
}

}  // namespace

CommandRun SetUpVerify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  VerifyOptions& verify = flags->verify;
  app.add_option("--model", verify.engine.model, "Checkpoint directory, or a materialized one")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, verify.engine.overlays);
  AddArmFlags(app, flags->arms);
  AddServerFlags(app, *flags);
  AddCorpusFlags(app, verify);
  app.add_option("--output-dir", verify.output_dir,
                 "Directory for the report and finished measurements; the same command goes on "
                 "with those")
      ->required()
      ->check(NotEmpty());
  app.add_flag("--restart", verify.restart, "Forget the finished measurements of this directory");
  app.add_option("--gates", verify.gates, "JSON file with limits; default: those kv8 ships")
      ->check(NotEmpty());
  app.add_option("--seed", verify.seed, "Seed of the bootstrap")
      ->check(WholeNumberWithin(0, UINT64_MAX))
      ->capture_default_str();
  verify.engine.speculative_tokens = 0;
  app.add_option("--speculative-tokens", verify.engine.speculative_tokens,
                 "Tokens that the draft head proposes in each step; 0: acceptance is not measured")
      ->check(WholeNumberWithin(0, 5))
      ->capture_default_str();
  app.add_option("--prefix-cache-memory", verify.engine.prefix_cache_memory,
                 "Bytes of host memory for the prefix cache; 0: none")
      ->check(WholeNumberWithin(0, INT64_MAX))
      ->capture_default_str();
  AddDeviceFlags(app, flags->device);
  AddLineageFlags(app, verify.engine.accept_lineage, verify.engine.trust_weights);
  app.add_flag("--quiet", flags->quiet, "No progress on standard error");
  AddJsonFlag(app, flags->json);
  return [flags] { return RunVerify(*flags); };
}

}  // namespace kv8
