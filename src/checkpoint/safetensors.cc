#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "base/checked.h"
#include "base/json.h"
#include "base/lfs_pointer.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kMaxRank = 8;

Error Corrupt(std::string what, std::string_view where) {
  return Error{Code::kCorrupt, std::move(what), std::string(where),
               "download or copy the file again"};
}

/// A tensor's bytes, relative to the start of the payload.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string_view name;
};

Result<std::string_view> HeaderText(std::span<const std::byte> file, std::string_view where) {
  if (IsLfsPointer({reinterpret_cast<const char*>(file.data()), file.size()})) {
    return LfsPointerError(where);
  }
  if (file.size() < kLengthBytes) {
    return Corrupt(fmt::format("{} bytes; the header length alone takes 8", file.size()), where);
  }
  std::uint64_t length = 0;
  for (std::uint64_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxSafetensorsHeader) {
    return Corrupt(
        fmt::format("header length {} exceeds the cap of {}", length, kMaxSafetensorsHeader),
        where);
  }
  if (length > file.size() - kLengthBytes) {
    return Corrupt(fmt::format("header length {} exceeds the {} bytes that follow it", length,
                               file.size() - kLengthBytes),
                   where);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data() + kLengthBytes), length);
  if (!text.starts_with('{')) return Corrupt("the header does not start with '{'", where);
  return text;
}

Result<void> ReadMetadata(const Json& json, std::string_view where, SafetensorsContent& out) {
  if (!json.is_object()) return Corrupt("__metadata__ is not an object", where);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return Corrupt(fmt::format("__metadata__ key \"{}\" is not a string", key), where);
    }
    out.metadata.emplace(key, value.get_ref<const std::string&>());
  }
  return {};
}

/// The field as an array of non-negative integers that fit int64.
Result<std::vector<std::int64_t>> ReadIntegers(const Json& entry, const char* key,
                                               std::size_t max_count, std::string_view where) {
  const auto field = entry.find(key);
  if (field == entry.end()) return Corrupt(fmt::format("no field \"{}\"", key), where);
  if (!field->is_array()) return Corrupt(fmt::format("{} is not an array", key), where);
  if (field->size() > max_count) {
    return Corrupt(fmt::format("{} has {} entries; at most {}", key, field->size(), max_count),
                   where);
  }
  std::vector<std::int64_t> out;
  for (const Json& item : *field) {
    const auto value = item.is_number_unsigned()
                           ? CheckedCast<std::int64_t>(item.get<std::uint64_t>())
                           : std::nullopt;
    if (!value) {
      return Corrupt(fmt::format("{} holds {}; only integers from 0 to 2^63-1 can stand there", key,
                                 JsonText(item)),
                     where);
    }
    out.push_back(*value);
  }
  return out;
}

Result<DType> ReadDType(const Json& entry, std::string_view where) {
  const auto field = entry.find("dtype");
  if (field == entry.end()) return Corrupt("no field \"dtype\"", where);
  if (!field->is_string()) return Corrupt("dtype is not a string", where);
  const auto& name = field->get_ref<const std::string&>();
  const auto dtype = DTypeFromName(name);
  if (!dtype) {
    return Error{Code::kCorrupt, fmt::format("unknown dtype \"{}\"", name), std::string(where),
                 "convert the checkpoint to BF16, F16 or F32"};
  }
  return *dtype;
}

/// Bits that dtype and shape call for; nullopt when they overflow.
std::optional<std::int64_t> BitsOf(DType dtype, std::span<const std::int64_t> shape) {
  std::optional<std::int64_t> bits = BitsOf(dtype);
  for (const std::int64_t extent : shape) {
    if (bits) bits = CheckedMul(*bits, extent);
  }
  return bits;
}

Result<TensorView> ReadEntry(const Json& entry, std::span<const std::byte> payload,
                             std::string_view where, Extent& extent) {
  if (!entry.is_object()) return Corrupt("its entry is not an object", where);
  TensorView view;
  KV8_ASSIGN_OR_RETURN(view.dtype, ReadDType(entry, where));
  KV8_ASSIGN_OR_RETURN(view.shape, ReadIntegers(entry, "shape", kMaxRank, where));
  KV8_ASSIGN_OR_RETURN(const auto offsets, ReadIntegers(entry, "data_offsets", 2, where));
  if (offsets.size() != 2) return Corrupt("data_offsets is not a pair", where);
  const std::int64_t begin = offsets[0];
  const std::int64_t end = offsets[1];
  if (begin > end || static_cast<std::uint64_t>(end) > payload.size()) {
    return Corrupt(fmt::format("data_offsets [{}, {}] do not lie in the payload of {} bytes", begin,
                               end, payload.size()),
                   where);
  }
  const auto bits = BitsOf(view.dtype, view.shape);
  if (!bits) {
    return Corrupt(fmt::format("shape {} overflows", ShapeText(view.shape)), where);
  }
  if (*bits % 8 != 0 || *bits / 8 != end - begin) {
    return Corrupt(fmt::format("{} {} takes {} bytes, data_offsets span {}", Name(view.dtype),
                               ShapeText(view.shape), static_cast<double>(*bits) / 8, end - begin),
                   where);
  }
  view.data = payload.data() + begin;
  extent.begin = static_cast<std::uint64_t>(begin);
  extent.end = static_cast<std::uint64_t>(end);
  return view;
}

/// Every payload byte belongs to exactly one tensor.
Result<void> CheckCoverage(std::vector<Extent> extents, std::uint64_t payload_bytes,
                           std::string_view where) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      return Corrupt(fmt::format("starts at payload byte {}, {} byte {}", extent.begin,
                                 extent.begin < covered ? "overlapping the tensor that ends at"
                                                        : "leaving a hole after",
                                 covered),
                     TensorPlace(where, extent.name));
    }
    covered = extent.end;
  }
  if (covered != payload_bytes) {
    return Corrupt(fmt::format("{} bytes follow the last tensor", payload_bytes - covered), where);
  }
  return {};
}

Json EntryOf(const StoredTensor& tensor, std::int64_t begin) {
  return Json{{"dtype", Name(tensor.dtype)},
              {"shape", tensor.shape},
              {"data_offsets", {begin, begin + tensor.bytes()}}};
}

std::string LengthPrefix(std::uint64_t length) {
  std::string bytes;
  for (std::uint64_t i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<char>(length >> (8 * i) & 0xff));
  }
  return bytes;
}

}  // namespace

Result<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file,
                                            std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const std::string_view text, HeaderText(file, where));
  KV8_ASSIGN_OR_RETURN(const Json header, ParseJson(text, where));
  const auto payload = file.subspan(kLengthBytes + text.size());

  SafetensorsContent content;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      KV8_RETURN_IF_ERROR(ReadMetadata(entry, where, content));
      continue;
    }
    Extent extent;
    KV8_ASSIGN_OR_RETURN(auto view, ReadEntry(entry, payload, TensorPlace(where, name), extent));
    extent.name = content.tensors.emplace(name, std::move(view)).first->first;
    extents.push_back(extent);
  }
  KV8_RETURN_IF_ERROR(CheckCoverage(std::move(extents), payload.size(), where));
  return content;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  KV8_ASSIGN_OR_RETURN(auto content, ParseSafetensors(file.bytes(), path.string()));
  return SafetensorsFile(std::move(file), std::move(content));
}

std::string SafetensorsHeader(std::span<const StoredTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::int64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = EntryOf(tensor, offset);
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize(RoundUp<std::size_t>(text.size(), 8), ' ');
  return LengthPrefix(text.size()) + text;
}

std::string SerializeSafetensors(const SafetensorsContent& content) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, tensor] : content.tensors) {
    tensors.push_back({name, tensor.dtype, tensor.shape});
  }
  std::string image = SafetensorsHeader(tensors, content.metadata);
  for (const auto& [name, tensor] : content.tensors) {
    image.append(reinterpret_cast<const char*>(tensor.data),
                 static_cast<std::size_t>(tensor.bytes()));
  }
  return image;
}

}  // namespace kv8
