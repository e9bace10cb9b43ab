#include "scalepack/materialize.h"

#include <fmt/format.h>

#include <set>

#include "base/file.h"
#include "base/output_path.h"
#include "base/sha256.h"
#include "checkpoint/index.h"
#include "scalepack/calibration_report.h"
#include "scalepack/kv_scales.h"
#include "scalepack/merged_index.h"
#include "scalepack/pack_writer.h"
#include "scalepack/provenance.h"
#include "scalepack/scale_names.h"
#include "scalepack/scale_pack.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

/// Where the inputs really are, and where the output will really be.
struct Places {
  fs::path base;
  fs::path pack;
  fs::path output;
};

Result<Places> ResolvePlaces(const MaterializeRequest& request) {
  Places places;
  KV8_ASSIGN_OR_RETURN(places.base, ResolvePath(request.base_checkpoint));
  KV8_ASSIGN_OR_RETURN(places.pack, ResolvePath(request.pack_dir));
  KV8_ASSIGN_OR_RETURN(places.output, ResolvePath(request.output_dir));
  KV8_RETURN_IF_ERROR(CheckNewOutput(request.output_dir));
  KV8_RETURN_IF_ERROR(CheckOutside(places.output, {places.base, places.pack}));
  return places;
}

/// A shard ready to be written.
struct ViewShard {
  std::string filename;
  std::string bytes;
  std::vector<std::string> tensor_names;  // sorted
};

ViewShard MakeShard(std::string filename, std::string bytes, const ScaleFile& content) {
  ViewShard shard{std::move(filename), std::move(bytes), {}};
  for (const auto& [name, value] : content.scales) shard.tensor_names.push_back(name);
  return shard;
}

/// The draft's shard from the pack or the report; nullopt when neither has it.
Result<std::optional<ViewShard>> DraftShard(const MaterializeRequest& request,
                                            const ScalePack& pack, const Checkpoint& base) {
  if (!request.draft_report) {
    if (!pack.draft) return std::optional<ViewShard>();
    return std::optional(
        MakeShard(std::string(kDraftScaleFile), pack.draft->bytes, pack.draft->content));
  }
  if (pack.draft || !base.config().draft) {
    return Error{
        Code::kInvalidArgument,
        pack.draft ? "the pack already has draft scales" : "the checkpoint has no draft head",
        request.draft_report->string(), "leave --draft-report out"};
  }
  KV8_ASSIGN_OR_RETURN(const CalibrationReport report, ReadReport(*request.draft_report));
  KV8_ASSIGN_OR_RETURN(const ScaleFile draft,
                       DraftScalesFromReport(report, base, request.lineage.hash));
  return std::optional(MakeShard(std::string(kDraftScaleFile), SerializeScaleFile(draft), draft));
}

/// Everything a view holds beside the links.
struct ViewImage {
  std::vector<ViewShard> shards;  // target, then draft if any
  std::string index;
  std::string provenance;
  MaterializeSummary summary;
};

Result<std::string> BuildIndex(const fs::path& base, const std::vector<ViewShard>& shards) {
  const fs::path file = base / kIndexFile;
  KV8_ASSIGN_OR_RETURN(Json index, ReadJsonFile(file, kMaxIndexBytes));
  std::vector<AddedShard> added;
  for (const ViewShard& shard : shards) {
    added.push_back({shard.filename, shard.bytes.size(), shard.tensor_names});
  }
  KV8_ASSIGN_OR_RETURN(const Json merged, MergeIndex(std::move(index), added, file.string()));
  return DumpJson(merged);
}

Result<std::string> BuildProvenance(const MaterializeRequest& request, const Places& places,
                                    const ScalePack& pack, const Checkpoint& base,
                                    const ViewImage& view) {
  Provenance out;
  out.artifact_id = pack.manifest.artifact_id;
  out.base_checkpoint = places.base.string();
  KV8_ASSIGN_OR_RETURN(out.base,
                       LineageOf(base, request.lineage.hash, view.summary.lineage.weights_sha256));
  out.accepted_lineage = view.summary.lineage.accepted;
  out.rule = pack.manifest.rule;
  out.manifest_sha256 = pack.manifest_sha256;
  out.merged_index_sha256 = view.summary.merged_index_sha256;
  out.target = {Sha256Hex(view.shards[0].bytes), view.shards[0].tensor_names};
  if (view.shards.size() > 1) {
    out.draft = {Sha256Hex(view.shards[1].bytes), view.shards[1].tensor_names};
  }
  if (request.draft_report) {
    out.draft_report = request.draft_report->string();
    KV8_ASSIGN_OR_RETURN(out.draft_report_sha256, Sha256File(*request.draft_report));
  }
  return DumpJson(ProvenanceToJson(out));
}

Result<ViewImage> BuildView(const MaterializeRequest& request, const Places& places,
                            const ScalePack& pack, const Checkpoint& base,
                            const LineageMatch& lineage) {
  ViewImage view;
  view.summary.lineage = lineage;
  view.shards.push_back(
      MakeShard(pack.manifest.target.filename, pack.target.bytes, pack.target.content));
  KV8_ASSIGN_OR_RETURN(auto draft, DraftShard(request, pack, base));
  if (draft) view.shards.push_back(std::move(*draft));
  KV8_ASSIGN_OR_RETURN(view.index, BuildIndex(places.base, view.shards));
  view.summary.artifact_id = pack.manifest.artifact_id;
  view.summary.target_scales = view.shards[0].tensor_names.size();
  view.summary.draft_scales = view.shards.size() > 1 ? view.shards[1].tensor_names.size() : 0;
  view.summary.merged_index_sha256 = Sha256Hex(view.index);
  KV8_ASSIGN_OR_RETURN(view.provenance, BuildProvenance(request, places, pack, base, view));
  return view;
}

/// Links every entry of the base that the view does not replace.
Result<void> LinkBase(const Places& places, const ViewImage& view, StagedDirectory* staged) {
  std::set<std::string, std::less<>> replaced = {std::string(kIndexFile),
                                                 std::string(kProvenanceFile)};
  for (const ViewShard& shard : view.shards) replaced.insert(shard.filename);
  const fs::path home = places.base.lexically_relative(places.output);
  std::error_code error;
  for (fs::directory_iterator it(places.base, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path name = it->path().filename();
    if (replaced.contains(name.string())) continue;
    KV8_RETURN_IF_ERROR(staged->Link(name, home / name));
  }
  if (error) return SystemError(places.base, "list", error.value());
  return {};
}

/// Opens what was written as a user of the view will. Relative links hold before the publication
/// too, because the staging directory has the same parent.
Result<void> CheckView(const fs::path& view, bool with_draft) {
  KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(view));
  // The weights were hashed a moment ago: without a place for records they are not read again.
  const LineageOptions hashed{.accept = false, .hash = {.recorded_only = true}};
  auto scales = LoadKvScales(checkpoint, std::nullopt, with_draft, hashed);
  return scales.ok() ? Result<void>() : std::move(scales).error();
}

Result<void> WriteView(const Places& places, const ViewImage& view, const StepHook& hook) {
  KV8_ASSIGN_OR_RETURN(auto staged, StagedDirectory::Create(places.output, hook));
  KV8_RETURN_IF_ERROR(LinkBase(places, view, &staged));
  for (const ViewShard& shard : view.shards) {
    KV8_RETURN_IF_ERROR(staged.Write(shard.filename, shard.bytes));
  }
  KV8_RETURN_IF_ERROR(staged.Write(kIndexFile, view.index));
  KV8_RETURN_IF_ERROR(staged.Write(kProvenanceFile, view.provenance));
  KV8_RETURN_IF_ERROR(CheckView(staged.path(), view.summary.draft_scales > 0));
  return staged.Publish();
}

}  // namespace

Result<MaterializeSummary> Materialize(const MaterializeRequest& request) {
  KV8_ASSIGN_OR_RETURN(const Places places, ResolvePlaces(request));
  KV8_ASSIGN_OR_RETURN(const ScalePack pack, ReadScalePack(places.pack));
  KV8_ASSIGN_OR_RETURN(const Checkpoint base, Checkpoint::Open(places.base));
  KV8_ASSIGN_OR_RETURN(const KvScales scales, BindScalePack(pack, base, request.lineage));
  KV8_ASSIGN_OR_RETURN(const ViewImage view,
                       BuildView(request, places, pack, base, scales.lineage));
  KV8_RETURN_IF_ERROR(WriteView(places, view, request.hook));
  return view.summary;
}

}  // namespace kv8
