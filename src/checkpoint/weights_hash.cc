#include "checkpoint/weights_hash.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <span>
#include <thread>

#include "base/checked.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "checkpoint/weights_record.h"

namespace kv8 {
namespace {

using Bytes = std::span<const std::byte>;

/// A shard on its way to its hash.
struct Shard {
  const SafetensorsFile* file = nullptr;
  std::string sha256;               // empty until it is known
  std::vector<std::string> leaves;  // of a shard that has to be read
};

struct TreeLeaf {
  Bytes bytes;
  std::string* sha256 = nullptr;
};

Error Changed(const SafetensorsFile& file) {
  return Error{Code::kMismatch, "changed while it was in use", file.path().string(),
               "run again once nobody writes to the checkpoint"};
}

/// Cuts the shards without a hash into leaves.
std::vector<TreeLeaf> LeavesOf(std::vector<Shard>& shards) {
  std::vector<TreeLeaf> leaves;
  for (Shard& shard : shards) {
    if (!shard.sha256.empty()) continue;
    const Bytes bytes = shard.file->bytes();
    shard.leaves.resize(CeilDiv(bytes.size(), kHashLeafBytes));
    for (std::size_t i = 0; i < shard.leaves.size(); ++i) {
      const Bytes rest = bytes.subspan(i * kHashLeafBytes);
      leaves.push_back({rest.first(std::min(rest.size(), kHashLeafBytes)), &shard.leaves[i]});
    }
  }
  return leaves;
}

void HashLeaf(const TreeLeaf& leaf) {
  // Reads ahead in large pieces; a page fault at a time would leave a disk idle. Only advice.
  ::madvise(const_cast<std::byte*>(leaf.bytes.data()), leaf.bytes.size(), MADV_WILLNEED);
  Sha256 hash;
  hash.Update(leaf.bytes);
  *leaf.sha256 = hash.FinishHex();
}

Result<void> HashLeaves(const std::vector<TreeLeaf>& leaves, const WeightsHashOptions& options) {
  const auto hardware = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ThreadPool pool(options.threads > 0 ? options.threads : hardware);
  std::uint64_t all = 0, done = 0;
  for (const TreeLeaf& leaf : leaves) all += leaf.bytes.size();
  // Progress is told between rounds: a few leaves for each thread keep all of them busy.
  const std::size_t round = 4 * static_cast<std::size_t>(pool.size());
  for (std::size_t first = 0; first < leaves.size(); first += round) {
    if (options.progress && !options.progress(done, all)) {
      return Error{Code::kCancelled, "stopped while the weights were hashed", "", ""};
    }
    const std::size_t count = std::min(round, leaves.size() - first);
    pool.ParallelFor(static_cast<std::int64_t>(count), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         HashLeaf(leaves[first + static_cast<std::size_t>(i)]);
                       }
                     });
    for (std::size_t i = first; i < first + count; ++i) done += leaves[i].bytes.size();
  }
  if (options.progress) options.progress(done, all);
  return {};
}

/// Joins a shard's leaves, and records the result unless the file changed under the hash.
Result<void> FinishShard(Shard& shard) {
  const FileStamp& opened = shard.file->stamp();
  std::string lines = fmt::format("{}\n", opened.size);
  for (const std::string& leaf : shard.leaves) lines += leaf + "\n";
  shard.sha256 = Sha256Hex(lines);
  KV8_ASSIGN_OR_RETURN(const FileStamp now, StampOf(shard.file->path()));
  if (!now.SameContent(opened)) return Changed(*shard.file);
  if (now == opened) KeepWeightsRecord(opened, shard.sha256);
  return {};
}

}  // namespace

Result<std::optional<std::string>> WeightsSha256(const std::vector<const SafetensorsFile*>& shards,
                                                 const WeightsHashOptions& options) {
  std::vector<Shard> all;
  for (const SafetensorsFile* file : shards) {
    all.push_back({file, FindWeightsRecord(file->stamp()).value_or(""), {}});
    if (all.back().sha256.empty() && options.recorded_only) return std::optional<std::string>();
  }
  if (const std::vector<TreeLeaf> leaves = LeavesOf(all); !leaves.empty()) {
    KV8_RETURN_IF_ERROR(HashLeaves(leaves, options));
  }
  std::vector<std::string> lines;
  for (Shard& shard : all) {
    if (shard.sha256.empty()) KV8_RETURN_IF_ERROR(FinishShard(shard));
    const std::string name = shard.file->path().filename().string();
    lines.push_back(fmt::format("{}  {}\n", shard.sha256, name));
  }
  constexpr std::size_t kHexDigits = 64;
  std::ranges::sort(lines, {}, [](const std::string& line) { return line.substr(kHexDigits); });
  return std::optional(Sha256Hex(fmt::format("{}", fmt::join(lines, ""))));
}

}  // namespace kv8
