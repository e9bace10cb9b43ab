#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/index.h"
#include "checkpoint/layer_check.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/ple_check.h"
#include "checkpoint/tensor_names.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMaxGenerationConfigBytes = 16'000'000;
constexpr const char* kSingleName = "model.safetensors";

bool SameContent(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
}

/// The prefix with the most distinct layer ids; empty when none or when two tie.
std::string MostVotedPrefix(const std::map<std::string, std::set<std::string>>& votes) {
  std::string winner;
  std::size_t most = 0;
  for (const auto& [prefix, ids] : votes) {
    if (ids.size() == most) winner.clear();
    if (ids.size() > most) {
      winner = prefix;
      most = ids.size();
    }
  }
  return winner;
}

/// True for the tensors that K and V are made of.
bool MakesKv(std::string_view name) {
  constexpr std::string_view kSuffixes[] = {".self_attn.k_proj.weight", ".self_attn.v_proj.weight",
                                            ".self_attn.k_norm.weight"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [name](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& dir) {
  Checkpoint out;
  out.dir_ = dir;
  KV8_RETURN_IF_ERROR(out.ReadConfigs());
  KV8_RETURN_IF_ERROR(out.ReadTensors());
  KV8_RETURN_IF_ERROR(CheckPleTensors(out));
  KV8_RETURN_IF_ERROR(CheckLayersAreKnown(out));
  return out;
}

Result<void> Checkpoint::ReadConfigs() {
  KV8_ASSIGN_OR_RETURN(config_, LoadModelSpec(dir_, &config_fields_));
  const auto generation = dir_ / "generation_config.json";
  if (PathExists(generation)) {
    KV8_ASSIGN_OR_RETURN(const Json file, ReadJsonFile(generation, kMaxGenerationConfigBytes));
    KV8_ASSIGN_OR_RETURN(stop_ids_, ParseStopIds(file, config_.vocab, generation.string()));
    KV8_ASSIGN_OR_RETURN(generation_, ParseGenerationDefaults(file, generation.string()));
  }
  if (stop_ids_.empty() && config_.eos) stop_ids_.push_back(*config_.eos);
  return {};
}

Result<void> Checkpoint::ReadTensors() {
  const auto path = dir_ / kIndexFile;
  TensorIndex index;
  std::map<std::string, std::size_t> opened;
  if (PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
    index_sha256_ = Sha256Hex(text);
    KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path.string()));
    KV8_ASSIGN_OR_RETURN(index, ParseTensorIndex(json, path.string()));
  } else {
    KV8_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(dir_ / kSingleName));
    for (const auto& [name, view] : file.content().tensors) index.emplace(name, kSingleName);
    files_.push_back(std::move(file));
    opened.emplace(kSingleName, 0);
  }
  std::map<std::string, std::set<std::string>> votes;
  for (const auto& [name, file_name] : index) {
    const auto [slot, is_new] = opened.emplace(file_name, files_.size());
    if (is_new) {
      KV8_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(dir_ / file_name));
      files_.push_back(std::move(file));
    }
    KV8_RETURN_IF_ERROR(AddTensor(name, slot->second));
    if (const auto vote = LayerVoteOf(name)) votes[vote->prefix].insert(vote->layer);
  }
  layer_prefix_ = MostVotedPrefix(votes);
  return {};
}

Result<void> Checkpoint::AddTensor(const std::string& name, std::size_t file) {
  const auto& tensors = files_[file].content().tensors;
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return Error{Code::kNotFound,
                 fmt::format("{} places the tensor here, but it is not", kIndexFile),
                 TensorPlace(files_[file].path().string(), name), "download the file again"};
  }
  const auto canonical = CanonicalName(name);
  if (!canonical) return {};
  const TensorView& view = found->second;
  if (const auto why = WhyUnsupported(*canonical, view.dtype); !why.empty()) {
    return Error{Code::kUnsupported, why, TensorPlace(files_[file].path().string(), name),
                 "use the unquantised checkpoint"};
  }
  const auto [slot, is_new] = tensors_.emplace(*canonical, view);
  if (is_new) {
    origins_.emplace(*canonical, Origin{file, name});
    return {};
  }
  const Origin& first = origins_.find(*canonical)->second;
  const bool head_copy = IsDraftHeadCopy(name) || IsDraftHeadCopy(first.name);
  if (head_copy && SameContent(slot->second, view)) return {};
  return Error{
      head_copy ? Code::kUnsupported : Code::kMismatch,
      head_copy ? fmt::format("differs from {}; kv8 drafts with the target's head", first.name)
                : fmt::format("is the same tensor as {} in {}", first.name,
                              files_[first.file].path().string()),
      TensorPlace(files_[file].path().string(), name), "remove one of the two from the index"};
}

const TensorView* Checkpoint::Find(std::string_view canonical_name) const {
  const auto found = tensors_.find(canonical_name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<TensorView> Checkpoint::Get(std::string_view canonical_name,
                                   std::span<const std::int64_t> shape) const {
  const TensorView* view = Find(canonical_name);
  if (view == nullptr) {
    return Error{Code::kNotFound,
                 fmt::format("no tensor {} (expected shape {})", canonical_name, ShapeText(shape)),
                 dir_.string(), "check that config.json belongs to these weights"};
  }
  if (!std::equal(shape.begin(), shape.end(), view->shape.begin(), view->shape.end())) {
    return Error{Code::kMismatch,
                 fmt::format("has shape {}, config.json makes it {}", ShapeText(view->shape),
                             ShapeText(shape)),
                 TensorPlace(FileOf(canonical_name).string(), canonical_name),
                 "check that config.json belongs to these weights"};
  }
  return *view;
}

std::filesystem::path Checkpoint::FileOf(std::string_view canonical_name) const {
  const auto found = origins_.find(canonical_name);
  return found == origins_.end() ? std::filesystem::path() : files_[found->second.file].path();
}

Result<void> Checkpoint::CheckUnchanged() const {
  for (const SafetensorsFile& file : files_) {
    const auto now = StampOf(file.path());
    if (now.ok() && now->SameContent(file.stamp())) continue;
    const std::string how = now.ok() ? "changed" : "went";
    return Error{Code::kIo, fmt::format("the weights {} while they were in use", how),
                 file.path().string(), "start again once nobody writes to the checkpoint"};
  }
  return {};
}

std::string Checkpoint::KvWeightsSha256() const {
  Sha256 hash;
  // Sorted names put "model." before "mtp.": target, then draft.
  for (const auto& [name, view] : tensors_) {
    if (!MakesKv(name)) continue;
    hash.Update(fmt::format("{}\n{}\n{}\n", name, Name(view.dtype), ShapeText(view.shape)));
    hash.Update(std::span(view.data, static_cast<std::size_t>(view.bytes())));
  }
  return hash.FinishHex();
}

}  // namespace kv8
