#include "kvtier/disk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace kv8 {
namespace {

constexpr std::string_view kSuffix = ".kv8unit", kUnfinished = ".unfinished";
constexpr std::int64_t kReadBytes = 1 << 20;

/// Past the kernel's cache where the file system allows it: a unit is used once.
int OpenDirect(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0 || errno != EINVAL) return fd;
  return ::open(path.c_str(), (flags & ~O_EXCL) | O_CLOEXEC | O_NOFOLLOW, 0600);
}

std::unique_ptr<ReadQueue> RingOrNothing() {
  auto ring = OpenRing();
  return ring.ok() ? std::move(ring).value() : nullptr;
}

Error FolderError(const std::filesystem::path& dir, const std::string& why) {
  return Error{Code::kIo, fmt::format("cannot keep K/V units in {}: {}", dir.string(), why),
               "--kv-disk", "give a folder that this user may write"};
}

/// Head of the unit in `path`, if it is one of `options` and whole.
Result<UnitHead> HeadOf(const std::filesystem::path& path) {
  IoBuffer bytes(IoBuffer::kBytes);
  const int fd = OpenDirect(path, O_RDONLY);
  const ssize_t n = fd < 0 ? -1 : ::pread(fd, bytes.data(), bytes.size(), 0);
  const off_t size = fd < 0 ? -1 : ::lseek(fd, 0, SEEK_END);
  if (fd >= 0) ::close(fd);
  const auto got = bytes.bytes().first(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  KV8_ASSIGN_OR_RETURN(UnitHead head, ReadUnitHead(got, path.string()));
  if (size == head.file_bytes() && path.filename() == head.name.exact + std::string(kSuffix)) {
    return head;
  }
  return Error{Code::kCorrupt, "the file is not the unit that it says", path.string(), "delete it"};
}

}  // namespace

DiskStore::DiskStore(DiskStoreOptions options)
    : options_(std::move(options)), reader_(RingOrNothing()) {}

DiskStore::~DiskStore() {
  if (lock_ >= 0) ::close(lock_);  // which gives the lock back
}

Result<std::unique_ptr<DiskStore>> DiskStore::Open(DiskStoreOptions options) {
  const std::int64_t least = UnitHead{.name = {.last = 1}, .layout = options.layout}.file_bytes();
  if (options.quota < least) {
    return Error{
        Code::kResourceExhausted,
        fmt::format("{} bytes given, a page with its state takes {}", options.quota, least),
        "--kv-disk-quota", "give more"};
  }
  std::error_code error;
  std::filesystem::create_directories(options.dir, error);
  if (error) return FolderError(options.dir, error.message());
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options)));
  const std::filesystem::path lock = store->options_.dir / "lock";
  store->lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (store->lock_ < 0) return FolderError(store->options_.dir, std::strerror(errno));
  store->writes_ = ::flock(store->lock_, LOCK_EX | LOCK_NB) == 0;
  store->Scan();
  return store;
}

std::filesystem::path DiskStore::PathOf(const std::string& exact) const {
  return options_.dir / (exact + std::string(kSuffix));
}

/// Knows each whole unit of this binding. The writer removes what was left unfinished.
void DiskStore::Scan() {
  std::error_code error;
  scanned_ = std::filesystem::last_write_time(options_.dir, error);
  std::vector<std::pair<std::filesystem::file_time_type, UnitHead>> found;
  for (const auto& entry : std::filesystem::directory_iterator(options_.dir, error)) {
    const std::string name = entry.path().filename().string();
    if (writes_ && name.ends_with(kUnfinished)) std::filesystem::remove(entry.path(), error);
    if (!name.ends_with(kSuffix) || files_.contains(entry.path().stem().string())) continue;
    auto head = HeadOf(entry.path());
    if (!head.ok()) ++counts_.refused;
    const bool ours =
        head.ok() && head->binding == options_.binding && head->layout == options_.layout;
    if (!ours) continue;
    found.emplace_back(std::filesystem::last_write_time(entry.path(), error), *std::move(head));
  }
  std::ranges::sort(found, {}, [](const auto& file) { return file.first; });
  for (auto& [time, head] : found) Add(std::move(head));
}

void DiskStore::Refresh() {
  std::error_code error;
  if (writes_ || std::filesystem::last_write_time(options_.dir, error) == scanned_) return;
  Scan();
}

void DiskStore::Add(UnitHead head) {
  const std::string exact = head.name.exact;
  counts_.bytes += static_cast<std::uint64_t>(head.file_bytes());
  exact_of_.emplace(head.name.end, exact);
  files_.emplace(exact, File{std::move(head), ++clock_});
  counts_.files = files_.size();
}

void DiskStore::Remove(Files::iterator file, bool refused) {
  const UnitHead& head = file->second.head;
  std::error_code error;
  if (writes_) std::filesystem::remove(PathOf(head.name.exact), error);
  const auto [begin, past] = exact_of_.equal_range(head.name.end);
  exact_of_.erase(std::find_if(begin, past,
                               [&](const auto& entry) { return entry.second == head.name.exact; }));
  counts_.bytes -= static_cast<std::uint64_t>(head.file_bytes());
  counts_.refused += refused ? 1 : 0;
  files_.erase(file);
  counts_.files = files_.size();
}

const UnitName* DiskStore::ByExact(const std::string& exact) const {
  const auto found = files_.find(exact);
  return found == files_.end() ? nullptr : &found->second.head.name;
}

const UnitName* DiskStore::ByEnd(const std::string& end) const {
  const auto found = exact_of_.find(end);
  return found == exact_of_.end() ? nullptr : ByExact(found->second);
}

bool DiskStore::MakeRoom(std::int64_t bytes) {
  const auto fits = [&] {
    return static_cast<std::int64_t>(counts_.bytes) + bytes <= options_.quota;
  };
  while (!fits() && !files_.empty()) {
    Remove(std::ranges::min_element(files_, {}, [](const auto& f) { return f.second.used; }),
           false);
  }
  return fits();
}

void DiskStore::Write(const KvUnit& unit) {
  if (!writes_ || files_.contains(unit.name.exact)) return;
  UnitHead head{
      .binding = options_.binding,
      .name = unit.name,
      .layout = options_.layout,
      .body_sha256 = BodySha256(unit.pages->buffer().bytes(), unit.state->buffer().bytes())};
  if (!MakeRoom(head.file_bytes())) return;
  std::filesystem::path unfinished = PathOf(unit.name.exact);
  unfinished += kUnfinished;
  std::error_code error;
  bool written = WriteFile(unfinished, unit, head);
  if (written) std::filesystem::rename(unfinished, PathOf(unit.name.exact), error);
  if (!written || error) {
    ++counts_.failed;
    std::filesystem::remove(unfinished, error);
    return;
  }
  ++counts_.written_units;
  Add(std::move(head));
}

bool DiskStore::WriteFile(const std::filesystem::path& path, const KvUnit& unit,
                          const UnitHead& head) {
  const int fd = OpenDirect(path, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0) return false;
  IoBuffer first(IoBuffer::kBytes);
  WriteUnitHead(head, first.bytes());
  auto put = [fd, at = off_t{0}](const IoBuffer& buffer) mutable {
    for (std::size_t done = 0; done < buffer.capacity();) {
      const ssize_t n = ::pwrite(fd, buffer.data() + done, buffer.capacity() - done, at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
      at += n;
    }
    return true;
  };
  const bool written = put(first) && put(unit.pages->buffer()) && put(unit.state->buffer());
  return ::close(fd) == 0 && written;
}

bool DiskStore::Read(const std::string& exact, IoBuffer& pages, IoBuffer& state) {
  const auto file = files_.find(exact);
  if (file == files_.end()) return false;
  const UnitHead& head = file->second.head;
  const int fd = OpenDirect(PathOf(exact), O_RDONLY);
  const bool right = fd >= 0 && ReadBody(fd, head, pages, state) &&
                     BodySha256(pages.bytes(), state.bytes()) == head.body_sha256;
  if (writes_ && right) ::futimens(fd, nullptr);  // the order of use outlives the process
  if (fd >= 0) ::close(fd);
  if (!right) {
    Remove(file, true);
    return false;
  }
  file->second.used = ++clock_;
  ++counts_.read_units;
  return true;
}

bool DiskStore::ReadBody(int fd, const UnitHead& head, IoBuffer& pages, IoBuffer& state) {
  std::vector<FilePart> parts;
  const auto want = [&parts, fd](std::int64_t at, IoBuffer& buffer) {
    const auto bytes = static_cast<std::int64_t>(buffer.capacity());
    for (std::int64_t done = 0; done < bytes; done += kReadBytes) {
      parts.push_back({fd, at + done, buffer.data() + done, std::min(kReadBytes, bytes - done)});
    }
  };
  want(static_cast<std::int64_t>(IoBuffer::kBytes), pages);
  want(head.state_at(), state);
  reader_.Start(parts, threads_);
  return !reader_.Finish();
}

}  // namespace kv8
