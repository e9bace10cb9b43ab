#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <string>
#include <utility>

#include "base/file.h"

namespace kv8 {

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::filesystem::path& path,
                                                    std::vector<StoredTensor> tensors,
                                                    const SafetensorsMetadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  SafetensorsWriter out(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (out.fd_ < 0) return SystemError(path, "create", errno);
  auto end = static_cast<std::int64_t>(header.size());
  for (const StoredTensor& tensor : tensors) {
    out.begins_.push_back(end);
    end += tensor.bytes();
  }
  out.tensors_ = std::move(tensors);
  if (::ftruncate(out.fd_, end) != 0) return SystemError(path, "write", errno);
  KV8_RETURN_IF_ERROR(out.WriteAt(0, std::as_bytes(std::span(header))));
  return out;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      tensors_(std::move(other.tensors_)),
      begins_(std::move(other.begins_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> SafetensorsWriter::Write(std::size_t tensor, std::int64_t offset,
                                      std::span<const std::byte> bytes) const {
  assert(offset >= 0 && offset + std::ssize(bytes) <= tensors_[tensor].bytes());
  return WriteAt(begins_[tensor] + offset, bytes);
}

Result<void> SafetensorsWriter::WriteAt(std::int64_t offset,
                                        std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError(path_, "write", written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

Result<void> SafetensorsWriter::Finish() {
  if (::fsync(fd_) != 0) return SystemError(path_, "write", errno);
  if (::close(std::exchange(fd_, -1)) != 0) return SystemError(path_, "write", errno);
  return {};
}

}  // namespace kv8
