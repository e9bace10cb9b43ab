// Writes a safetensors file piece by piece: it may be larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kv8/error.h"

namespace kv8 {

/// A file that is being written, with its header from the beginning. Bytes that nobody writes are a
/// hole of the file: zeros that take no place on the disk. Move-only.
class SafetensorsWriter {
 public:
  /// Creates `path`, which must not exist, in its whole size. Errors: kIo (a full disk included).
  static Result<SafetensorsWriter> Create(const std::filesystem::path& path,
                                          std::vector<StoredTensor> tensors,
                                          const SafetensorsMetadata& metadata);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  /// Writes bytes of a tensor, by its place in the list, from its byte `offset` on. Threads may
  /// write at once. Errors: kIo.
  Result<void> Write(std::size_t tensor, std::int64_t offset,
                     std::span<const std::byte> bytes) const;
  /// Makes the file durable and closes it. Errors: kIo.
  Result<void> Finish();

 private:
  SafetensorsWriter(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<void> WriteAt(std::int64_t offset, std::span<const std::byte> bytes) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<StoredTensor> tensors_;
  std::vector<std::int64_t> begins_;  // of each tensor in the file, bytes
};

}  // namespace kv8
