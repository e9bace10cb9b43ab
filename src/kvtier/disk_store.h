// Units of the K/V cache in files, which outlive the process.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/part_reader.h"
#include "base/thread_pool.h"
#include "kv8/error.h"
#include "kvtier/kv_unit.h"
#include "kvtier/unit_file.h"

namespace kv8 {

struct DiskStoreOptions {
  std::filesystem::path dir;  // made when it is not there
  std::int64_t quota = 0;     // bytes of all files of this binding
  std::string binding;        // files of another are left alone
  UnitLayout layout;
};

/// Counters of a store.
struct DiskCounts {
  std::uint64_t files = 0, bytes = 0;  // now
  std::uint64_t read_units = 0, written_units = 0;
  std::uint64_t refused = 0;  // files that did not hold what they say
  std::uint64_t failed = 0;   // writes that failed
};

/// One process writes a folder, the first that opens it; others read. A file gets its name when it
/// is complete, and what is read is compared with its hash: whatever happens to a file costs a
/// recomputation. Files used longest ago make room.
class DiskStore {
 public:
  /// Errors: kIo for a folder that cannot be made or written; kResourceExhausted for a quota below
  /// one unit of a page.
  static Result<std::unique_ptr<DiskStore>> Open(DiskStoreOptions options);
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  bool writes() const { return writes_; }
  const DiskCounts& counts() const { return counts_; }

  /// Null when there is no such unit. What others wrote is seen after Refresh.
  const UnitName* ByExact(const std::string& exact) const;
  const UnitName* ByEnd(const std::string& end) const;
  void Refresh();

  /// Keeps a whole unit, if this process writes and there is room.
  void Write(const KvUnit& unit);
  /// Fills buffers of the unit's sizes; false when the file is not what it was, and then it is
  /// forgotten.
  bool Read(const std::string& exact, IoBuffer& pages, IoBuffer& state);

 private:
  struct File {
    UnitHead head;
    std::uint64_t used = 0;
  };
  using Files = std::unordered_map<std::string, File>;

  explicit DiskStore(DiskStoreOptions options);
  std::filesystem::path PathOf(const std::string& exact) const;
  void Scan();
  bool MakeRoom(std::int64_t bytes);
  bool WriteFile(const std::filesystem::path& path, const KvUnit& unit, const UnitHead& head);
  void Add(UnitHead head);
  void Remove(Files::iterator file, bool refused);
  bool ReadBody(int fd, const UnitHead& head, IoBuffer& pages, IoBuffer& state);

  const DiskStoreOptions options_;
  ThreadPool threads_{1};
  PartReader reader_;
  int lock_ = -1;
  bool writes_ = false;
  std::uint64_t clock_ = 0;
  std::filesystem::file_time_type scanned_{};
  Files files_;  // by exact key
  std::multimap<std::string, std::string> exact_of_;
  DiskCounts counts_;
};

}  // namespace kv8
