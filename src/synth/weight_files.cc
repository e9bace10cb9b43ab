#include "synth/weight_files.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "checkpoint/safetensors_writer.h"

namespace kv8 {
namespace {

constexpr std::size_t kMaxFiles = 99'999;

std::uint64_t Written(const TensorGroup& group) {
  return static_cast<std::uint64_t>(group.bytes() - group.hole_bytes);
}

/// One piece of a group that starts at tensor `first` of its file.
struct Piece {
  const TensorGroup* group = nullptr;
  std::size_t first = 0;
  std::int64_t number = 0;
};

std::vector<Piece> PiecesOf(const WeightFile& file) {
  std::vector<Piece> pieces;
  std::size_t first = 0;
  for (const TensorGroup& group : file.groups) {
    for (std::int64_t i = 0; i < group.pieces; ++i) pieces.push_back({&group, first, i});
    first += group.tensors.size();
  }
  return pieces;
}

/// Bytes of its group that a piece counts for; the pieces of a group count for all of it.
std::uint64_t Share(const Piece& piece) {
  const std::uint64_t all = Written(*piece.group);
  const auto pieces = static_cast<std::uint64_t>(piece.group->pieces);
  return all / pieces + (piece.number == 0 ? all % pieces : 0);
}

/// What threads tell each other about the work.
class Work {
 public:
  Work(std::uint64_t all, const WriteProgress& progress) : all_(all), progress_(progress) {}

  /// Fills a piece, unless the work has ended. Thread 0, the caller's, tells the progress.
  void Do(const Piece& piece, const SafetensorsWriter& file, int thread) {
    if (ended_) return;
    if (auto filled = piece.group->fill(piece.number, GroupWriter(file, piece.first));
        !filled.ok()) {
      return Fail(std::move(filled).error());
    }
    done_ += Share(piece);
    if (thread == 0) Tell();
  }
  void Tell() {
    if (progress_ && !progress_(done_, all_)) {
      Fail(Error{Code::kCancelled, "stopped before the checkpoint was written", "", ""});
    }
  }
  Result<void> status() const { return error_ ? Result<void>(*error_) : Result<void>(); }

 private:
  void Fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    ended_ = true;
  }

  const std::uint64_t all_;
  const WriteProgress& progress_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::optional<Error> error_;  // the first
};

Result<void> WriteFile(const WeightFile& file, const std::filesystem::path& path, ThreadPool& pool,
                       Work& work) {
  std::vector<StoredTensor> tensors;
  for (const TensorGroup& group : file.groups) {
    tensors.insert(tensors.end(), group.tensors.begin(), group.tensors.end());
  }
  KV8_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                       SafetensorsWriter::Create(path, std::move(tensors), {{"format", "pt"}}));
  const std::vector<Piece> pieces = PiecesOf(file);
  pool.ParallelFor(std::ssize(pieces), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      work.Do(pieces[static_cast<std::size_t>(i)], writer, thread);
    }
  });
  KV8_RETURN_IF_ERROR(work.status());
  return writer.Finish();
}

}  // namespace

Result<std::vector<WeightFile>> CutIntoFiles(std::vector<TensorGroup> groups,
                                             std::uint64_t shard_bytes) {
  std::vector<WeightFile> files;
  std::uint64_t filled = 0;
  for (TensorGroup& group : groups) {
    const auto bytes = static_cast<std::uint64_t>(group.bytes());
    if (files.empty() || filled + bytes > shard_bytes) {
      files.emplace_back();
      filled = 0;
    }
    filled += bytes;
    files.back().groups.push_back(std::move(group));
  }
  if (files.size() > kMaxFiles) {
    return Error{Code::kInvalidArgument,
                 fmt::format("makes {} files; their names count to {}", files.size(), kMaxFiles),
                 "--shard-size", "choose a larger size"};
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  }
  return files;
}

Json IndexOf(const std::vector<WeightFile>& files) {
  Json map = Json::object();
  std::int64_t bytes = 0;
  for (const WeightFile& file : files) {
    for (const TensorGroup& group : file.groups) {
      bytes += group.bytes();
      for (const StoredTensor& tensor : group.tensors) map[tensor.name] = file.name;
    }
  }
  return {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
}

std::uint64_t DiskBytes(const std::vector<WeightFile>& files) {
  std::uint64_t bytes = 0;
  for (const WeightFile& file : files) {
    for (const TensorGroup& group : file.groups) bytes += Written(group);
  }
  return bytes;
}

Result<void> WriteWeights(const std::vector<WeightFile>& files, const StagedDirectory& out,
                          ThreadPool& pool, const WriteProgress& progress) {
  Work work(DiskBytes(files), progress);
  work.Tell();
  for (const WeightFile& file : files) {
    KV8_RETURN_IF_ERROR(WriteFile(file, out.path() / file.name, pool, work));
  }
  work.Tell();
  return work.status();
}

}  // namespace kv8
