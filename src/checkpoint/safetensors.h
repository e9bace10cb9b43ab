// The safetensors container: header parsing with every promise of the format checked, and writing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "kv8/error.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Largest header that is parsed, bytes. One file with every tensor of the largest known form of
/// the family (152,089 of them) takes 25 MB; the cap bounds what a lying file can make kv8
/// allocate.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 32'000'000;

using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

/// A parsed file in memory. The views point into the bytes it was parsed from.
struct SafetensorsContent {
  std::map<std::string, TensorView, std::less<>> tensors;
  SafetensorsMetadata metadata;
};

/// Parses a whole file image. `where` names it in errors.
/// Errors: kCorrupt, naming the tensor where one is at fault: short file, header length beyond the
/// file or the cap, invalid or duplicate-key JSON, wrong types, unknown dtype, negative or
/// overflowing shape or offsets, size that contradicts the shape, holes, overlaps, trailing bytes.
Result<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file,
                                            std::string_view where);

/// A mapped file and its parsed content.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsContent& content() const { return content_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// As it was when the file was opened.
  const FileStamp& stamp() const { return file_.stamp(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsContent content)
      : file_(std::move(file)), content_(std::move(content)) {}

  MappedFile file_;
  SafetensorsContent content_;
};

/// A tensor as a file describes it.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;

  std::int64_t bytes() const { return TensorView{nullptr, dtype, shape}.bytes(); }
};

/// What stands before the payload: 8-byte length, compact JSON with sorted keys padded with spaces
/// to 8. The payload holds `tensors` one behind the other.
std::string SafetensorsHeader(std::span<const StoredTensor> tensors,
                              const SafetensorsMetadata& metadata);

/// File image: header and payload, in the order of the names.
std::string SerializeSafetensors(const SafetensorsContent& content);

}  // namespace kv8
