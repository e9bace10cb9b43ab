#include "checkpoint/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/index.h"
#include "checkpoint/tensor_types.h"

namespace kv8 {
namespace {

bool SameContent(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
}

}  // namespace

Result<TensorFiles> TensorFiles::Open(const std::filesystem::path& dir,
                                      const TensorNaming& naming) {
  TensorFiles out;
  out.dir_ = dir;
  const auto path = dir / kIndexFile;
  TensorIndex index;
  std::map<std::string, std::size_t> opened;
  if (PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
    out.index_sha256_ = Sha256Hex(text);
    KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path.string()));
    KV8_ASSIGN_OR_RETURN(index, ParseTensorIndex(json, path.string()));
  } else {
    KV8_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(dir / kSingleFile));
    for (const auto& [name, view] : file.content().tensors) index.emplace(name, kSingleFile);
    out.files_.push_back(std::move(file));
    opened.emplace(kSingleFile, 0);
  }
  for (const auto& [name, file_name] : index) {
    const auto [slot, is_new] = opened.emplace(file_name, out.files_.size());
    if (is_new) {
      KV8_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(dir / file_name));
      out.files_.push_back(std::move(file));
    }
    KV8_RETURN_IF_ERROR(out.AddTensor(name, slot->second, naming));
  }
  return out;
}

Result<void> TensorFiles::AddTensor(const std::string& name, std::size_t file,
                                    const TensorNaming& naming) {
  const auto& tensors = files_[file].content().tensors;
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return Error{Code::kNotFound,
                 fmt::format("{} places the tensor here, but it is not", kIndexFile),
                 TensorPlace(files_[file].path().string(), name), "download the file again"};
  }
  const auto canonical = naming.canonical(name);
  if (!canonical) return {};
  const TensorView& view = found->second;
  if (const auto why = WhyUnsupported(*canonical, view.dtype, naming.integer_leaves);
      !why.empty()) {
    return Error{Code::kUnsupported, why, TensorPlace(files_[file].path().string(), name),
                 "use the unquantised checkpoint"};
  }
  const auto [slot, is_new] = tensors_.emplace(*canonical, view);
  if (is_new) {
    origins_.emplace(*canonical, Origin{file, name});
    return {};
  }
  const Origin& first = origins_.find(*canonical)->second;
  const bool head_copy = naming.is_head_copy(name) || naming.is_head_copy(first.name);
  if (head_copy && SameContent(slot->second, view)) return {};
  return Error{
      head_copy ? Code::kUnsupported : Code::kMismatch,
      head_copy ? fmt::format("differs from {}; kv8 drafts with the target's head", first.name)
                : fmt::format("is the same tensor as {} in {}", first.name,
                              files_[first.file].path().string()),
      TensorPlace(files_[file].path().string(), name), "remove one of the two from the index"};
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

std::filesystem::path TensorFiles::FileOf(std::string_view canonical_name) const {
  const auto found = origins_.find(canonical_name);
  return found == origins_.end() ? std::filesystem::path() : files_[found->second.file].path();
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
