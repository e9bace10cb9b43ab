// `kv8 materialize`: a view of a checkpoint that carries the scales of a pack.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "hash_progress.h"
#include "output.h"
#include "printable.h"
#include "scalepack/materialize.h"

namespace kv8 {
namespace {

struct MaterializeFlags {
  MaterializeRequest request;
  std::filesystem::path draft_report;
  bool json = false;
};

Json ToJson(const MaterializeSummary& view, const std::filesystem::path& output) {
  return {{"view", output.string()},
          {"artifact_id", view.artifact_id},
          {"target_scales", view.target_scales},
          {"draft_scales", view.draft_scales},
          {"merged_index_sha256", view.merged_index_sha256},
          {"accepted_lineage", view.lineage.accepted}};
}

std::string ToText(const MaterializeSummary& view, const std::filesystem::path& output) {
  return fmt::format("{}: {} target scales, {} draft scales\n{}\n", Printable(view.artifact_id),
                     view.target_scales, view.draft_scales, Printable(output.string()));
}

Result<void> RunMaterialize(MaterializeFlags flags) {
  if (!flags.draft_report.empty()) flags.request.draft_report = flags.draft_report;
  flags.request.lineage.hash.progress = ShowHashing();
  KV8_ASSIGN_OR_RETURN(const MaterializeSummary view, Materialize(flags.request));
  const std::filesystem::path& output = flags.request.output_dir;
  return flags.json ? WriteJson(ToJson(view, output)) : WriteLines(ToText(view, output));
}

}  // namespace

CommandRun SetUpMaterialize(CLI::App& app) {
  auto flags = std::make_shared<MaterializeFlags>();
  MaterializeRequest& request = flags->request;
  app.add_option("--base-checkpoint", request.base_checkpoint,
                 "Checkpoint to view; it is only read and must stay where it is")
      ->required()
      ->check(NotEmpty());
  app.add_option("--pack-dir", request.pack_dir, "Scale pack of that checkpoint")
      ->required()
      ->check(NotEmpty());
  app.add_option("--output-dir", request.output_dir, "View to make; must not exist")
      ->required()
      ->check(NotEmpty());
  app.add_option("--draft-report", flags->draft_report,
                 "Report of `kv8 calibrate` with the draft's ranges, for a pack without them")
      ->check(NotEmpty());
  app.add_flag("--accept-lineage", request.lineage.accept,
               "Take a pack that was measured on another checkpoint, such as this one before its "
               "fine-tuning; the view's provenance says in what the two differ");
  AddJsonFlag(app, flags->json);
  return [flags] { return RunMaterialize(*flags); };
}

}  // namespace kv8
