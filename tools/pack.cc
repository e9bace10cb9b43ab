// `kv8 pack`: a scale pack from a calibration report or a JSON sidecar, and a sidecar from a pack.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/output_path.h"
#include "commands.h"
#include "engine_flags.h"
#include "hash_progress.h"
#include "output.h"
#include "printable.h"
#include "scalepack/kv_scales.h"
#include "scalepack/pack_writer.h"
#include "scalepack/sidecar.h"

namespace kv8 {
namespace {

struct PackFlags {
  std::filesystem::path report;
  std::filesystem::path sidecar;
  std::filesystem::path scale_pack;
  std::filesystem::path export_sidecar;
  SidecarForm form = SidecarForm::kLayers;
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

Result<PackSummary> Write(const PackFlags& flags, const Checkpoint& checkpoint) {
  const PackOptions options{
      .repo_id = flags.repo_id, .hook = {}, .hash = {.progress = ShowHashing()}};
  if (flags.sidecar.empty()) {
    KV8_ASSIGN_OR_RETURN(const CalibrationReport report, ReadReport(flags.report));
    return WritePack(report, checkpoint, flags.output, options);
  }
  KV8_ASSIGN_OR_RETURN(const SidecarFile sidecar,
                       ReadSidecar(flags.sidecar, checkpoint.config().layer_count()));
  return WriteImportedPack(sidecar, flags.sidecar.string(), checkpoint, flags.output, options);
}

/// The scales of a pack, or of the checkpoint itself, as a sidecar.
Result<void> Export(const PackFlags& flags, const Checkpoint& checkpoint) {
  KV8_RETURN_IF_ERROR(CheckNewOutput(flags.export_sidecar));
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(flags.export_sidecar, flags.model));
  const auto pack = flags.scale_pack.empty()
                        ? std::nullopt
                        : std::optional<std::filesystem::path>(flags.scale_pack);
  KV8_ASSIGN_OR_RETURN(const KvScales scales,
                       LoadKvScales(checkpoint, pack, /*need_draft=*/false,
                                    {.accept = false, .hash = {.progress = ShowHashing()}}));
  KV8_RETURN_IF_ERROR(
      WriteNewFile(flags.export_sidecar, DumpJson(SidecarToJson(scales, checkpoint, flags.form))));
  const std::string file = flags.export_sidecar.string();
  return flags.json ? WriteJson({{"sidecar", file},
                                 {"layers", scales.target.size()},
                                 {"draft", scales.draft.has_value()}})
                    : WriteLines(Printable(file) + "\n");
}

Result<void> Pack(const PackFlags& flags) {
  KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(flags.model, flags.overlays));
  if (!flags.export_sidecar.empty()) return Export(flags, checkpoint);
  KV8_ASSIGN_OR_RETURN(const PackSummary pack, Write(flags, checkpoint));
  if (pack.draft_scales == 0 && checkpoint.config().draft) {
    Note("the draft layer's scales are missing: this pack serves runs without speculation only");
  }
  if (!flags.sidecar.empty()) {
    Note(
        "nothing tells whether these scales were measured on this checkpoint: watch the clipped "
        "values");
  }
  return flags.json ? WriteJson(ToJson(pack, flags.output))
                    : WriteLines(ToText(pack, flags.output));
}

}  // namespace

CommandRun SetUpPack(CLI::App& app) {
  auto flags = std::make_shared<PackFlags>();
  static const std::map<std::string, SidecarForm> kForms = {{"layers", SidecarForm::kLayers},
                                                            {"per_layer", SidecarForm::kPerLayer}};
  auto* const source = app.add_option_group("source", "What to pack, or to export");
  source->add_option("--report", flags->report, "Report of `kv8 calibrate`")->check(NotEmpty());
  source->add_option("--sidecar", flags->sidecar, "Scales of another tool, as JSON")
      ->check(NotEmpty());
  auto* const export_to = source
                              ->add_option("--export-sidecar", flags->export_sidecar,
                                           "Write scales as JSON for another tool; must not exist")
                              ->check(NotEmpty());
  source->require_option(1);
  app.add_option("--scale-pack", flags->scale_pack,
                 "Pack to export; without it, the checkpoint's own scales")
      ->needs(export_to)
      ->check(NotEmpty());
  app.add_option("--sidecar-form", flags->form, "What stands around the exported layers")
      ->transform(CLI::CheckedTransformer(kForms).description("layers|per_layer"))
      ->needs(export_to);
  app.add_option("--model", flags->model, "Checkpoint that the scales belong to")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, flags->overlays);
  auto* const output =
      app.add_option("--output-dir", flags->output, "Pack to write; must not exist")
          ->excludes(export_to)
          ->check(NotEmpty());
  app.add_option("--repo-id", flags->repo_id,
                 "Public name of the checkpoint, for the manifest; without it, its directory's");
  AddJsonFlag(app, flags->json);
  app.final_callback([export_to, output] {
    if (export_to->count() + output->count() == 0) throw CLI::RequiredError("--output-dir");
  });
  return [flags] { return Pack(*flags); };
}

}  // namespace kv8
