#include "checkpoint/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/index.h"
#include "checkpoint/tensor_types.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

bool SameContent(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
}

/// Files without an index: the one that a checkpoint may be, or all that an overlay has.
Result<std::set<std::string>> UnindexedFiles(const fs::path& dir, bool overlay) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; overlay && !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") names.insert(it->path().filename().string());
  }
  if (error) return SystemError(dir, "list", error.value());
  if (!overlay) names.emplace(kSingleFile);
  if (!names.empty()) return names;
  return Error{Code::kNotFound, "holds no safetensors file", dir.string(),
               "name a directory with tensors that replace others"};
}

/// What is wrong about the draft's copy of the head.
constexpr const char* kForeignHead = "differs from {}; kv8 drafts with the target's head";

}  // namespace

Result<TensorFiles> TensorFiles::Open(const fs::path& dir, std::span<const fs::path> overlays,
                                      const TensorNaming& naming) {
  TensorFiles out;
  KV8_ASSIGN_OR_RETURN(Tensors base, out.OpenPart(dir, /*overlay=*/false, naming));
  KV8_RETURN_IF_ERROR(out.Compose(std::move(base), naming));
  for (const fs::path& overlay : overlays) {
    KV8_ASSIGN_OR_RETURN(Tensors part, out.OpenPart(overlay, /*overlay=*/true, naming));
    KV8_RETURN_IF_ERROR(out.Compose(std::move(part), naming));
  }
  return out;
}

Result<TensorFiles::Tensors> TensorFiles::OpenPart(const fs::path& dir, bool overlay,
                                                   const TensorNaming& naming) {
  CheckpointPart part{.dir = dir, .index_sha256 = {}, .first_file = files_.size()};
  Tensors tensors;
  std::map<std::string, std::size_t> opened;
  const auto open = [&](const std::string& name) -> Result<std::size_t> {
    const auto [slot, is_new] = opened.emplace(name, files_.size());
    if (is_new) {
      KV8_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(dir / name));
      files_.push_back(std::move(file));
    }
    return slot->second;
  };
  if (const fs::path path = dir / kIndexFile; PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
    part.index_sha256 = Sha256Hex(text);
    KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path.string()));
    KV8_ASSIGN_OR_RETURN(const TensorIndex index, ParseTensorIndex(json, path.string()));
    for (const auto& [name, file_name] : index) {
      KV8_ASSIGN_OR_RETURN(const std::size_t file, open(file_name));
      KV8_RETURN_IF_ERROR(AddTensor(name, file, naming, tensors));
    }
  } else {
    KV8_ASSIGN_OR_RETURN(const std::set<std::string> names, UnindexedFiles(dir, overlay));
    for (const std::string& file_name : names) {
      KV8_ASSIGN_OR_RETURN(const std::size_t file, open(file_name));
      for (const auto& [name, view] : files_[file].content().tensors) {
        KV8_RETURN_IF_ERROR(AddTensor(name, file, naming, tensors));
      }
    }
  }
  part.files = files_.size() - part.first_file;
  parts_.push_back(std::move(part));
  return tensors;
}

Result<void> TensorFiles::AddTensor(const std::string& name, std::size_t file,
                                    const TensorNaming& naming, Tensors& part) const {
  const auto& tensors = files_[file].content().tensors;
  const auto found = tensors.find(name);
  const auto place = [&] { return TensorPlace(files_[file].path().string(), name); };
  if (found == tensors.end()) {
    return Error{Code::kNotFound,
                 fmt::format("{} places the tensor here, but it is not", kIndexFile), place(),
                 "download the file again"};
  }
  const auto canonical = naming.canonical(name);
  if (!canonical) return {};
  const TensorView& view = found->second;
  const std::string why = IsWeightPart(LeafOf(*canonical))
                              ? ""
                              : WhyUnsupported(*canonical, view.dtype, naming.integer_leaves);
  if (!why.empty()) {
    return Error{Code::kUnsupported, why, place(),
                 "use a checkpoint in a layout that kv8 reads (docs/guide/checkpoints.md)"};
  }
  const auto [slot, is_new] = part.views.emplace(*canonical, view);
  if (is_new) {
    part.origins.emplace(*canonical, Origin{file, name});
    return {};
  }
  const Origin& first = part.origins.find(*canonical)->second;
  const bool head_copy = naming.is_head_copy(name) || naming.is_head_copy(first.name);
  if (head_copy && SameContent(slot->second, view)) return {};
  return Error{head_copy ? Code::kUnsupported : Code::kMismatch,
               head_copy ? fmt::format(kForeignHead, first.name)
                         : fmt::format("is the same tensor as {} in {}", first.name,
                                       files_[first.file].path().string()),
               place(), "remove one of the two from the index"};
}

Result<void> TensorFiles::Compose(Tensors part, const TensorNaming& naming) {
  // A copy of the head comes with an overlay's draft head, and is none of its own.
  std::erase_if(part.views, [&](const auto& tensor) {
    const auto ours = tensors_.find(tensor.first);
    return naming.is_head_copy(part.origins.find(tensor.first)->second.name) &&
           ours != tensors_.end() && SameContent(ours->second, tensor.second);
  });
  std::set<std::string> units;
  for (const auto& [name, view] : part.views) {
    const Origin& origin = part.origins.find(name)->second;
    if (naming.is_head_copy(origin.name) && tensors_.contains(name)) {
      return Error{Code::kUnsupported, fmt::format(kForeignHead, WrittenName(name)),
                   TensorPlace(files_[origin.file].path().string(), origin.name),
                   "leave the copy out of the overlay"};
    }
    units.emplace(naming.unit(name));
  }
  for (const std::string& unit : units) {
    for (auto it = tensors_.lower_bound(unit);
         it != tensors_.end() && it->first.starts_with(unit);) {
      const bool replaced = naming.unit(it->first) == unit;
      if (replaced) origins_.erase(it->first);
      it = replaced ? tensors_.erase(it) : std::next(it);
    }
  }
  for (auto& [name, view] : part.views) {
    origins_.emplace(name, std::move(part.origins.find(name)->second));
    tensors_.emplace(name, std::move(view));
  }
  return {};
}

const TensorView* TensorFiles::Find(std::string_view canonical_name) const {
  const auto found = tensors_.find(canonical_name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<TensorView> TensorFiles::Get(std::string_view canonical_name,
                                    std::span<const std::int64_t> shape) const {
  const TensorView* view = Find(canonical_name);
  if (view == nullptr) {
    return Error{Code::kNotFound,
                 fmt::format("no tensor {} (expected shape {})", canonical_name, ShapeText(shape)),
                 dir().string(), "check that config.json belongs to these weights"};
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

std::filesystem::path TensorFiles::FileOf(std::string_view canonical_name) const {
  const auto found = origins_.find(canonical_name);
  return found == origins_.end() ? std::filesystem::path() : files_[found->second.file].path();
}

TensorFiles::Place TensorFiles::PlaceOf(const std::byte* data) const {
  const auto holds = [data](const std::byte* begin, std::int64_t bytes) {
    // As numbers: these are pointers into different maps.
    const auto at = std::bit_cast<std::intptr_t>(data), from = std::bit_cast<std::intptr_t>(begin);
    return at >= from && at < from + bytes;
  };
  for (const SafetensorsFile& file : files_) {
    if (!holds(file.bytes().data(), std::ssize(file.bytes()))) continue;
    for (const auto& [name, view] : file.content().tensors) {
      if (holds(view.data, view.bytes())) return {&file, name};
    }
    return {&file, {}};
  }
  return {};
}

std::size_t TensorFiles::PartOf(std::string_view canonical_name) const {
  const std::size_t file = origins_.find(canonical_name)->second.file;
  std::size_t part = parts_.size() - 1;
  while (parts_[part].first_file > file) --part;
  return part;
}

std::string TensorFiles::index_sha256() const {
  if (parts_.size() == 1 || parts_.front().index_sha256.empty()) return parts_.front().index_sha256;
  std::string lines;
  for (const CheckpointPart& part : parts_) {
    lines += (part.index_sha256.empty() ? "-" : part.index_sha256) + "\n";
  }
  return Sha256Hex(lines);
}

std::string_view TensorFiles::WrittenName(std::string_view canonical_name) const {
  return origins_.find(canonical_name)->second.name;
}

std::vector<std::string_view> TensorFiles::written_names() const {
  std::vector<std::string_view> names;
  for (const auto& [canonical, origin] : origins_) names.push_back(origin.name);
  return names;
}

Result<void> TensorFiles::CheckUnchanged() const {
  for (const SafetensorsFile& file : files_) {
    const auto now = StampOf(file.path());
    if (now.ok() && now->SameContent(file.stamp())) continue;
    const std::string how = now.ok() ? "changed" : "went";
    return Error{Code::kIo, fmt::format("the weights {} while they were in use", how),
                 file.path().string(), "start again once nobody writes to the checkpoint"};
  }
  return {};
}

}  // namespace kv8
