#include "scalepack/pack_readme.h"

#include <fmt/format.h>

namespace kv8 {
namespace {

constexpr std::string_view kText =
    R"(# {id}

Scales for an 8-bit (E4M3) K/V cache of `{repo}`. With them the cache of the full-attention layers
takes half the bytes of an FP16 cache. The weights of the model are not in here and are not changed.

A scale belongs to one layer and one side (K or V): the cache stores `e4m3(x / scale)` and reads
`code * scale`. {rule}

{draft}

## Use

The pack fits exactly one checkpoint, the one whose `model.safetensors.index.json` has the SHA-256

    {index}

and kv8 refuses it for any other.

    kv8 generate --model CHECKPOINT --scale-pack THIS_DIRECTORY --kv-cache-dtype fp8_e4m3 \
        --max-tokens 40 --prompt "..."

For programs that look for the scales inside the checkpoint, make a view of the checkpoint that has
them. It consists of links; the checkpoint itself stays as it is and must stay where it is.

    kv8 materialize --base-checkpoint CHECKPOINT --pack-dir THIS_DIRECTORY --output-dir VIEW

To check the files: `sha256sum -c SHA256SUMS`.

## Scales

{table})";

constexpr std::string_view kMaxText =
    R"(Each scale is the largest magnitude that calibration saw, divided by 448 and rounded
up to FP32, so nothing that calibration saw is clipped.)";

constexpr std::string_view kImportedText =
    R"(The scales were taken from another tool's file; how they were measured, and on
which weights, is not known here.)";

std::string RuleText(const ScaleManifest& manifest) {
  const ScaleRule& rule = manifest.rule;
  if (!manifest.imported_sha256.empty()) return std::string(kImportedText);
  if (rule == ScaleRule{}) return std::string(kMaxText);
  return fmt::format(
      "Each scale is a clip limit, divided by 448 and rounded up to FP32; the limit\nfollows from "
      "what calibration saw by the rule \"{}\". What is larger is clipped.",
      Describe(rule));
}

std::string ScaleTable(const ScaleManifest& manifest) {
  std::string table = "| layer | side | largest value seen | scale |\n|---|---|---|---|\n";
  for (const ManifestTensor& tensor : manifest.tensors) {
    const std::string layer = tensor.slot.draft ? "draft" : fmt::to_string(tensor.slot.layer);
    table +=
        fmt::format("| {} | {} | {} | {} |\n", layer, Name(tensor.slot.side),
                    tensor.max_abs ? fmt::to_string(*tensor.max_abs) : "unknown", tensor.scale);
  }
  return table;
}

}  // namespace

std::string PackReadme(const ScaleManifest& manifest) {
  const std::string_view draft =
      manifest.draft
          ? "The scales of the draft (MTP) layer are included, so speculative decoding "
            "works with this pack."
          : "The scales of the draft (MTP) layer are not included: use this pack without "
            "speculative decoding.";
  return fmt::format(
      kText, fmt::arg("id", manifest.artifact_id), fmt::arg("repo", manifest.repo_id),
      fmt::arg("draft", draft), fmt::arg("rule", RuleText(manifest)),
      fmt::arg("index", manifest.base.index_sha256), fmt::arg("table", ScaleTable(manifest)));
}

}  // namespace kv8
