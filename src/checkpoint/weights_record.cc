#include "checkpoint/weights_record.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>

#include "base/json_fields.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr int kRecordSchema = 1;
constexpr std::uint64_t kMaxRecordBytes = 1 << 16;
/// The coarsest clock of a file system in use (FAT) ticks every 2 s.
constexpr std::int64_t kClockTick = 2'000'000'000;

fs::path RecordPath(const FileStamp& stamp) {
  const fs::path dir = WeightsRecordDir();
  if (dir.empty()) return {};
  return dir / fmt::format("{:x}-{:x}.json", stamp.device, stamp.inode);
}

/// True for a file that this user alone can have written.
bool IsOurs(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return false;
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Result<std::int64_t> Nanoseconds(const JsonFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t value, fields.Count(key, INT64_MAX));
  return static_cast<std::int64_t>(value);
}

}  // namespace

fs::path WeightsRecordDir() {
  const auto absolute = [](const char* variable) {
    const char* const value = std::getenv(variable);
    const fs::path path = value == nullptr ? "" : value;
    return path.is_absolute() ? path : fs::path();
  };
  // As the XDG base directory specification has it; relative paths in it do not count.
  if (const fs::path cache = absolute("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "kv8" / "weights";
  }
  const fs::path home = absolute("HOME");
  return home.empty() ? home : home / ".cache" / "kv8" / "weights";
}

Result<WeightsRecord> ParseWeightsRecord(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t version, root.Count("schema_version"));
  if (version != kRecordSchema) return root.Bad("schema_version", "is not 1");
  WeightsRecord record;
  KV8_ASSIGN_OR_RETURN(record.stamp.device, root.Count("device"));
  KV8_ASSIGN_OR_RETURN(record.stamp.inode, root.Count("inode"));
  KV8_ASSIGN_OR_RETURN(record.stamp.size, root.Count("size"));
  KV8_ASSIGN_OR_RETURN(record.stamp.modified_ns, Nanoseconds(root, "modified_ns"));
  KV8_ASSIGN_OR_RETURN(record.stamp.changed_ns, Nanoseconds(root, "changed_ns"));
  KV8_ASSIGN_OR_RETURN(record.sha256, root.Sha256("sha256"));
  return record;
}

Json WeightsRecordToJson(const WeightsRecord& record) {
  return {{"schema_version", kRecordSchema},
          {"device", record.stamp.device},
          {"inode", record.stamp.inode},
          {"size", record.stamp.size},
          {"modified_ns", record.stamp.modified_ns},
          {"changed_ns", record.stamp.changed_ns},
          {"sha256", record.sha256}};
}

std::optional<std::string> FindWeightsRecord(const FileStamp& stamp) {
  const fs::path path = RecordPath(stamp);
  if (path.empty() || !IsOurs(path)) return std::nullopt;
  const auto json = ReadJsonFile(path, kMaxRecordBytes);
  if (!json.ok()) return std::nullopt;
  const auto record = ParseWeightsRecord(*json, path.string());
  if (!record.ok() || !(record->stamp == stamp)) return std::nullopt;
  return record->sha256;
}

void KeepWeightsRecord(const FileStamp& stamp, const std::string& sha256) {
  const fs::path path = RecordPath(stamp);
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::int64_t written = std::max(stamp.modified_ns, stamp.changed_ns);
  if (path.empty() || stamp.modified_ns < 0 || written > now.count() - kClockTick) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return;
  const auto written_to_disk =
      WriteFileAtomic(path, WeightsRecordToJson({stamp, sha256}).dump() + "\n");
  static_cast<void>(written_to_disk);
}

}  // namespace kv8
