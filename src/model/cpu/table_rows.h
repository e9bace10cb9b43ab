// Rows of n-gram tables, read from their files as soon as a pass knows its tokens: for tables that
// memory does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/part_reader.h"
#include "base/thread_pool.h"
#include "checkpoint/tensor_files.h"
#include "kv8/error.h"
#include "kv8/statistics.h"
#include "model/batch.h"
#include "model/cpu/row_cache.h"
#include "tensor/model_weights.h"

namespace kv8 {

class TableRows {
 public:
  /// For passes of up to `max_rows` rows. `model` lies in the maps of `files`; both must outlive
  /// this. Without a queue, rows are read by calls. Errors: those of OpenFile; kIo for a file that
  /// is no longer the one that was mapped; kUnsupported for a table that is not stored row by row.
  static Result<std::unique_ptr<TableRows>> Open(const Model& model, const TensorFiles& files,
                                                 std::int64_t cache_budget, std::int64_t max_rows,
                                                 Result<std::unique_ptr<ReadQueue>> queue,
                                                 ReadCall* call = ::pread);
  /// What cache_bytes() and work_bytes() will be.
  static std::int64_t CacheBytes(const Model& model, std::int64_t cache_budget);
  static std::int64_t WorkBytes(const Model& model, std::int64_t max_rows);

  std::int64_t cache_bytes() const { return cache_.bytes(); }
  std::int64_t work_bytes() const;
  const NgramTableStatistics& statistics() const { return statistics_; }

  /// Begins to read what the batch needs of every table. Sequences are in the state before it.
  void Start(const Batch& batch, ThreadPool& pool);
  /// The rows of a table, by token and head, until the next Start. Waits for them. Errors: kIo,
  /// naming file and tensor.
  Result<std::span<const Weight>> Rows(int ple_layer);

 private:
  /// A tensor, or the piece of one, in its file.
  struct Source {
    int fd = -1;
    const std::byte* map = nullptr;  // of the whole file
    std::filesystem::path path;
    std::string tensor;
  };
  struct Table {
    const PleWeights* weights = nullptr;
    std::vector<Source> codes, scales;  // by piece; scales are empty if there are none
    std::vector<Weight> rows;           // [max_rows*heads]
    std::vector<std::byte> bytes;       // of these rows
  };
  /// A row that is not in the cache.
  struct Miss {
    std::uint64_t key = 0;
    std::size_t table = 0;
    std::size_t row = 0;  // index in Table::rows
    std::int64_t id = 0;  // in the table
  };

  TableRows(const Model& model, std::int64_t cache_budget, std::int64_t max_rows,
            std::unique_ptr<ReadQueue> queue, ReadCall* call);
  Result<Source> SourceOf(const std::byte* data, const TensorFiles& files);
  Result<void> OpenTable(Table& table, const TensorFiles& files);
  void TakeRow(std::size_t table, std::size_t row, std::int64_t id);
  void AskFor(const Miss& miss);
  Result<void> Finish();
  Error FailureOf(const PartReader::Failure& failure) const;

  std::vector<OpenFile> files_;
  std::vector<const SafetensorsFile*> opened_;  // what files_ are
  std::vector<Table> tables_;                   // by PLE layer
  RowCache cache_;
  std::vector<Miss> misses_;
  std::vector<FilePart> parts_;
  std::vector<const Source*> sources_;  // of the parts
  std::vector<std::int64_t> ids_;       // [heads]
  std::vector<TokenId> window_;         // [ngram_size]
  NgramTableStatistics statistics_;
  std::size_t batch_rows_ = 0;
  bool under_way_ = false;
  PartReader reader_;  // the last: it waits for reads into the others
};

}  // namespace kv8
