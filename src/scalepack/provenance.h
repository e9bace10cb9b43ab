// kvscales-provenance.json: how a materialized view came to be, and the hashes that prove it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/found_scales.h"
#include "scalepack/lineage.h"
#include "scalepack/scale_rule.h"

namespace kv8 {

/// Scales of one shard of a view.
struct ProvenanceShard {
  std::string sha256;
  std::vector<std::string> tensor_names;  // sorted; written for people, not read back
};

struct Provenance {
  std::string artifact_id;
  std::string base_checkpoint;  // resolved path
  Lineage base;
  std::string manifest_sha256;
  std::string merged_index_sha256;  // empty in views by an older tool
  ScaleRule rule;                   // of the pack's scales; a draft report states its own
  ProvenanceShard target;
  std::optional<ProvenanceShard> draft;
  std::string draft_report;         // path; empty when the draft's scales came with the pack
  std::string draft_report_sha256;  // as above
  /// Names of what differs between the base and the checkpoint that the scales were measured on,
  /// where the user accepted that.
  std::vector<std::string> accepted_lineage;
};

/// Reads the forms of kv8 and of the two public tools. Errors: kCorrupt, naming file and key, also
/// for scales that the file itself declares uncalibrated.
Result<Provenance> ParseProvenance(const Json& json, std::string_view where);

Json ProvenanceToJson(const Provenance& provenance);

/// A view's provenance, and how the view's weights compare with it.
struct CheckedProvenance {
  std::string artifact_id;
  LineageMatch lineage;
};

/// Checks the scales found in a checkpoint against its provenance file, where it has one. A shard
/// that bears a pack's marker but has no provenance beside it is refused, because nothing tells
/// what it belongs to. Errors: kMismatch, kCorrupt, kNotFound, naming file and remedy; those of
/// CheckLineage.
Result<std::optional<CheckedProvenance>> CheckProvenance(const Checkpoint& checkpoint,
                                                         const FoundScales& found,
                                                         const LineageOptions& options);

}  // namespace kv8
