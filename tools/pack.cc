// `kv8 pack`: a scale pack from a calibration report.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "engine_flags.h"
#include "hash_progress.h"
#include "output.h"
#include "printable.h"
#include "scalepack/pack_writer.h"

namespace kv8 {
namespace {

struct PackFlags {
  std::filesystem::path report;
  std::filesystem::path model;
  std::vector<std::filesystem::path> overlays;
  std::filesystem::path output;
  std::string repo_id;
  bool json = false;
};

Json ToJson(const PackSummary& pack, const std::filesystem::path& output) {
  return {{"pack", output.string()},
          {"artifact_id", pack.artifact_id},
          {"target_scales", pack.target_scales},
          {"draft_scales", pack.draft_scales}};
}

std::string ToText(const PackSummary& pack, const std::filesystem::path& output) {
  return fmt::format("{}: {} target scales, {} draft scales\n{}\n", Printable(pack.artifact_id),
                     pack.target_scales, pack.draft_scales, Printable(output.string()));
}

Result<void> Pack(const PackFlags& flags) {
  KV8_ASSIGN_OR_RETURN(const CalibrationReport report, ReadReport(flags.report));
  KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(flags.model, flags.overlays));
  const PackOptions options{
      .repo_id = flags.repo_id, .hook = {}, .hash = {.progress = ShowHashing()}};
  KV8_ASSIGN_OR_RETURN(const PackSummary pack,
                       WritePack(report, checkpoint, flags.output, options));
  if (pack.draft_scales == 0 && checkpoint.config().draft) {
    Note("the report lacks the draft layer: this pack serves runs without speculation only");
  }
  return flags.json ? WriteJson(ToJson(pack, flags.output))
                    : WriteLines(ToText(pack, flags.output));
}

}  // namespace

CommandRun SetUpPack(CLI::App& app) {
  auto flags = std::make_shared<PackFlags>();
  app.add_option("--report", flags->report, "Report of `kv8 calibrate`")
      ->required()
      ->check(NotEmpty());
  app.add_option("--model", flags->model, "Checkpoint that was measured")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, flags->overlays);
  app.add_option("--output-dir", flags->output, "Pack to write; must not exist")
      ->required()
      ->check(NotEmpty());
  app.add_option("--repo-id", flags->repo_id,
                 "Public name of the checkpoint, for the manifest; without it, its directory's");
  AddJsonFlag(app, flags->json);
  return [flags] { return Pack(*flags); };
}

}  // namespace kv8
