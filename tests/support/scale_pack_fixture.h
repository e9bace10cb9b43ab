// Reports, packs, checkpoints and ways to spoil them, on the bundled model.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/calibration_report.h"
#include "scalepack/scale_file.h"
#include "support/refuses.h"
#include "support/temp_dir.h"

namespace kv8::test {

/// The bundled model: 12 layers, QSA layers 3, 7 and 11, one draft layer.
std::filesystem::path TinyModelDir();
const Checkpoint& TinyModel();

/// A consistent report of `checkpoint`, K and V different everywhere. The maximum of layer L is
/// 8 + L / 4 for K and 1 + L / 16 for V; the draft counts as layer 12.
CalibrationReport MakeReport(const Checkpoint& checkpoint, bool with_draft = true);

/// A copy of the bundled model made of links, with an index of its own.
void CopyTinyModel(const std::filesystem::path& dir);
/// Edits the index of such a copy; the file is replaced, never the original.
void EditIndex(const std::filesystem::path& dir, const std::function<void(Json&)>& edit);
/// Adds a shard with the tensors of `file` to such a copy, index included.
void AddShard(const std::filesystem::path& dir, const std::string& filename, const ScaleFile& file);

/// Such a copy with one bit of one tensor (canonical name) flipped: a fine-tune with the same
/// index.
void CopyTunedModel(const std::filesystem::path& dir, const std::string& tensor);
/// Such a copy with another value of one key of config.json's text_config.
void CopyModelWithConfig(const std::filesystem::path& dir, const std::string& key,
                         const Json& value);

/// Scales for every layer of the target, all the same.
ScaleFile FullScaleSet();

/// Writes a pack of the bundled model.
void MakePack(const std::filesystem::path& dir, bool with_draft = true);
/// A pack as other tools publish it: target scales and the published manifest keys only.
void MakePublishedPack(const std::filesystem::path& dir);
/// Writes SHA256SUMS for what is in the directory now.
void RewriteSums(const std::filesystem::path& pack);
/// Edits the manifest and rewrites SHA256SUMS, as somebody with bad intentions would.
void EditManifest(const std::filesystem::path& pack, const std::function<void(Json&)>& edit);
/// Replaces a scale file (`key` is its manifest entry) and updates every hash of it.
void ReplaceScaleFile(const std::filesystem::path& pack, const std::string& key,
                      const std::string& bytes);
/// Parses, edits and replaces a scale file; `edit` also gets its metadata.
void EditScaleFile(const std::filesystem::path& pack, const std::string& key,
                   const std::function<void(ScaleFile&)>& edit);

/// Every entry below `dir` with its type, link target or content.
std::string Snapshot(const std::filesystem::path& dir);

}  // namespace kv8::test
