// Files: bounded reads, read-only maps, atomic writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// Whether anything has this name, a dangling or looping link too.
bool PathExists(const std::filesystem::path& path);

/// True for a name that stays in its directory: not empty, "." or "..", no separator, no control
/// character.
bool IsPlainFileName(std::string_view name);

/// Errors: kAlreadyExists when an output would replace something.
Result<void> CheckNewOutput(const std::filesystem::path& path);

/// Whole content of a regular file.
/// Errors: kNotFound, kIo, kResourceExhausted when the file is longer than `max_bytes`.
Result<std::string> ReadFile(const std::filesystem::path& path, std::uint64_t max_bytes);

/// A regular file as a stream for reading; the caller closes it. Errors: kNotFound, kIo,
/// kInvalidArgument for what is not a regular file.
Result<std::FILE*> OpenStream(const std::filesystem::path& path);

/// What tells, without reading it, whether a file is still the one it was.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  // of the content; whoever writes it can set this back
  std::int64_t changed_ns = 0;   // of anything, links and permissions too; nobody can set it

  bool operator==(const FileStamp&) const = default;
  /// Equal but for changed_ns: a new link to a file does not change what it holds.
  bool SameContent(const FileStamp& other) const;
};

/// The stamp of the file that `path` leads to. Errors: kNotFound, kIo.
Result<FileStamp> StampOf(const std::filesystem::path& path);

/// A read-only, private memory map of a whole regular file. Move-only; unmaps itself.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo; an empty file maps to an empty span.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// As it was when the file was opened.
  const FileStamp& stamp() const { return stamp_; }

 private:
  MappedFile(std::filesystem::path path, const FileStamp& stamp, const std::byte* data);

  std::filesystem::path path_;
  FileStamp stamp_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A regular file that parts are read from, in no order: the system reads nothing ahead. Move-only.
class OpenFile {
 public:
  /// Errors: kNotFound, kIo, kInvalidArgument for what is not a regular file.
  static Result<OpenFile> Open(const std::filesystem::path& path);

  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  int fd() const { return fd_; }
  /// As it was when the file was opened.
  const FileStamp& stamp() const { return stamp_; }

 private:
  OpenFile(int fd, const FileStamp& stamp) : fd_(fd), stamp_(stamp) {}

  int fd_ = -1;
  FileStamp stamp_;
};

/// Writes `content` to `path` so that a reader sees either the old file or the whole new one: a
/// sibling temporary, fsync, rename. The temporary is removed on failure.
/// Errors: kIo (a full disk included).
Result<void> WriteFileAtomic(const std::filesystem::path& path, std::string_view content);

/// WriteFileAtomic for a path where nothing may be yet: what appeared there meanwhile stays.
/// Errors: those of WriteFileAtomic and RenameNew.
Result<void> WriteNewFile(const std::filesystem::path& path, std::string_view content);

/// Renames a file or directory to a name that nothing has. Errors: those of CheckNewOutput; kIo.
Result<void> RenameNew(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the entries of a directory (creations, renames) survive a power cut. Errors: kIo.
Result<void> SyncDirectory(const std::filesystem::path& path);

/// The error of a failed system call: `cannot <action>: <text of errno>`, with a remedy where the
/// number suggests one.
Error SystemError(const std::filesystem::path& path, std::string_view action, int number);

}  // namespace kv8
