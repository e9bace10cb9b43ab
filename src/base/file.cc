#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/temporary.h"

namespace kv8 {
namespace {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes now, so that the caller sees a delayed write error.
  int Close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

FileStamp StampFrom(const struct stat& info) {
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = static_cast<std::uint64_t>(info.st_size),
          .modified_ns = nanoseconds(info.st_mtim),
          .changed_ns = nanoseconds(info.st_ctim)};
}

/// Opens a regular file for reading and tells its stamp.
Result<std::pair<int, FileStamp>> OpenRegular(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO by mistake must not hang; it has no effect on regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "open", errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int number = errno;
    ::close(fd);
    return SystemError(path, "stat", number);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return Error{Code::kInvalidArgument, "not a regular file", path.string(), "name a file"};
  }
  return std::pair{fd, StampFrom(info)};
}

Result<void> WriteAll(int fd, const std::filesystem::path& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "write", errno);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Error OutputExists(const std::filesystem::path& path) {
  return Error{Code::kAlreadyExists, "the output exists already", path.string(),
               "name another output, or move this one away"};
}

using RenameFn = Result<void>(const std::filesystem::path& from, const std::filesystem::path& to);

Result<void> RenameOver(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return SystemError(to, "rename into place", errno);
}

Result<void> WriteAndSync(const std::filesystem::path& path, std::string_view content) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) return SystemError(path, "create", errno);
  KV8_RETURN_IF_ERROR(WriteAll(fd.get(), path, content));
  if (::fsync(fd.get()) != 0) return SystemError(path, "write", errno);
  if (fd.Close() != 0) return SystemError(path, "write", errno);
  return {};
}

/// Writes beside `path` and lets `rename` put it there.
Result<void> WriteAndRename(const std::filesystem::path& path, std::string_view content,
                            RenameFn* rename) {
  const std::filesystem::path temporary = TemporaryBeside(path);
  auto written = WriteAndSync(temporary, content);
  if (written.ok()) written = rename(temporary, path);
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

}  // namespace

Error SystemError(const std::filesystem::path& path, std::string_view action, int number) {
  const bool absent = number == ENOENT || number == ENOTDIR;
  std::string remedy;
  if (absent) remedy = "check the path";
  if (number == ENOSPC || number == EDQUOT) remedy = "free some space on that disk and run again";
  if (number == EACCES || number == EPERM || number == EROFS) remedy = "check the permissions";
  if (number == ELOOP) remedy = "replace the symbolic link that leads back to itself";
  return Error{absent ? Code::kNotFound : Code::kIo,
               fmt::format("cannot {}: {}", action, std::strerror(number)), path.string(), remedy};
}

bool PathExists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

Result<void> CheckNewOutput(const std::filesystem::path& path) {
  if (!PathExists(path)) return {};
  return OutputExists(path);
}

Result<std::string> ReadFile(const std::filesystem::path& path, std::uint64_t max_bytes) {
  KV8_ASSIGN_OR_RETURN(const auto opened, OpenRegular(path));
  const Descriptor fd(opened.first);
  const std::uint64_t size = opened.second.size;
  if (size > max_bytes) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} bytes; at most {} are read", size, max_bytes), path.string(),
                 "check that this is the right file"};
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "read", errno);
    if (n == 0) break;  // truncated while being read
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

Result<std::FILE*> OpenStream(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const auto opened, OpenRegular(path));
  std::FILE* const stream = ::fdopen(opened.first, "rb");
  if (stream != nullptr) return stream;
  const int number = errno;
  ::close(opened.first);
  return SystemError(path, "open", number);
}

bool FileStamp::SameContent(const FileStamp& other) const {
  FileStamp same = *this;
  same.changed_ns = other.changed_ns;
  return same == other;
}

Result<FileStamp> StampOf(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return SystemError(path, "stat", errno);
  return StampFrom(info);
}

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const auto opened, OpenRegular(path));
  const Descriptor fd(opened.first);
  const FileStamp& stamp = opened.second;
  if (stamp.size == 0) return MappedFile(path, stamp, nullptr);
  void* data = ::mmap(nullptr, stamp.size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return SystemError(path, "map", errno);
  return MappedFile(path, stamp, static_cast<const std::byte*>(data));
}

MappedFile::MappedFile(std::filesystem::path path, const FileStamp& stamp, const std::byte* data)
    : path_(std::move(path)), stamp_(stamp), data_(data), size_(stamp.size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      stamp_(other.stamp_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(stamp_, other.stamp_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<OpenFile> OpenFile::Open(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const auto opened, OpenRegular(path));
  ::posix_fadvise(opened.first, 0, 0, POSIX_FADV_RANDOM);  // advice: it may be ignored
  return OpenFile(opened.first, opened.second);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), stamp_(other.stamp_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> WriteFileAtomic(const std::filesystem::path& path, std::string_view content) {
  return WriteAndRename(path, content, RenameOver);
}

Result<void> WriteNewFile(const std::filesystem::path& path, std::string_view content) {
  return WriteAndRename(path, content, RenameNew);
}

Result<void> RenameNew(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return OutputExists(to);
  if (errno != EINVAL && errno != ENOSYS) return SystemError(to, "rename into place", errno);
  // A file system without the flag: the check is not atomic there, the rename still is.
  KV8_RETURN_IF_ERROR(CheckNewOutput(to));
  return RenameOver(from, to);
}

Result<void> SyncDirectory(const std::filesystem::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return SystemError(path, "open", errno);
  if (::fsync(fd.get()) != 0) return SystemError(path, "sync", errno);
  return {};
}

}  // namespace kv8
