#include "model/cpu/table_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "ops/ple_hash.h"

namespace kv8 {
namespace {

std::int64_t RowBytes(const Weight& table) {
  return table.code_row_bytes() + table.scale_row_bytes();
}

/// Calls use(weights) for every n-gram table, by PLE layer.
template <class Use>
void ForEachTable(const Model& model, Use use) {
  for (const LayerWeights& layer : model.weights.layers) {
    if (layer.ple) use(*layer.ple);
  }
}

std::int64_t LargestRow(const Model& model) {
  std::int64_t bytes = 0;
  ForEachTable(
      model, [&](const PleWeights& ple) { bytes = std::max(bytes, RowBytes(ple.shards.front())); });
  return bytes;
}

/// Rows of every table in one pass.
std::int64_t HeadRows(const Model& model, std::int64_t max_rows) {
  return max_rows * (model.spec.ple ? model.spec.ple->heads() : 0);
}

}  // namespace

std::int64_t TableRows::CacheBytes(const Model& model, std::int64_t cache_budget) {
  return RowCache::BytesOf(cache_budget, LargestRow(model));
}

std::int64_t TableRows::WorkBytes(const Model& model, std::int64_t max_rows) {
  // Of each row: itself, what may be missing of it, and the reads of its codes and scales.
  constexpr std::size_t kBookkeeping =
      sizeof(Weight) + sizeof(Miss) + 2 * (sizeof(FilePart) + sizeof(void*));
  std::int64_t bytes = 0;
  ForEachTable(model, [&](const PleWeights& ple) {
    bytes += RowBytes(ple.shards.front()) + static_cast<std::int64_t>(kBookkeeping);
  });
  return HeadRows(model, max_rows) * bytes;
}

TableRows::TableRows(const Model& model, std::int64_t cache_budget, std::int64_t max_rows,
                     std::unique_ptr<ReadQueue> queue, ReadCall* call)
    : cache_(cache_budget, LargestRow(model)), reader_(std::move(queue), call) {
  const auto rows = static_cast<std::size_t>(HeadRows(model, max_rows));
  ForEachTable(model, [&](const PleWeights& ple) {
    Table& table = tables_.emplace_back();
    table.weights = &ple;
    table.rows.resize(rows);
    table.bytes.resize(rows * static_cast<std::size_t>(RowBytes(ple.shards.front())));
    ids_.resize(ple.hash.head_sizes.size());
    window_.resize(ple.hash.multipliers.size());
  });
  misses_.reserve(rows * tables_.size());
  parts_.reserve(2 * misses_.capacity());
  sources_.reserve(parts_.capacity());
}

Result<std::unique_ptr<TableRows>> TableRows::Open(const Model& model, const TensorFiles& files,
                                                   std::int64_t cache_budget, std::int64_t max_rows,
                                                   Result<std::unique_ptr<ReadQueue>> queue,
                                                   ReadCall* call) {
  std::string refusal = queue.ok() ? "" : queue.error().what;
  std::unique_ptr<TableRows> out(
      new TableRows(model, cache_budget, max_rows,
                    queue.ok() ? std::move(queue).value() : std::unique_ptr<ReadQueue>(), call));
  out->statistics_.access = out->reader_.has_queue() ? TableAccess::kIoUring : TableAccess::kPread;
  out->statistics_.refusal = std::move(refusal);
  for (Table& table : out->tables_) KV8_RETURN_IF_ERROR(out->OpenTable(table, files));
  return out;
}

Result<TableRows::Source> TableRows::SourceOf(const std::byte* data, const TensorFiles& files) {
  const TensorFiles::Place place = files.PlaceOf(data);
  if (place.file == nullptr) {
    return Error{Code::kUnsupported, "an n-gram table is not stored row by row, so it was copied",
                 "--table-cache", "use 0, or a table in BF16, FP8 or NVFP4"};
  }
  std::size_t i = 0;
  while (i < opened_.size() && opened_[i] != place.file) ++i;
  if (i == opened_.size()) {
    KV8_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(place.file->path()));
    if (!file.stamp().SameContent(place.file->stamp())) {
      return Error{Code::kIo, "the weights changed while they were opened",
                   place.file->path().string(), "start again once nobody writes to the checkpoint"};
    }
    files_.push_back(std::move(file));
    opened_.push_back(place.file);
  }
  return Source{files_[i].fd(), place.file->bytes().data(), place.file->path(),
                std::string(place.tensor)};
}

Result<void> TableRows::OpenTable(Table& table, const TensorFiles& files) {
  for (const Weight& shard : table.weights->shards) {
    KV8_ASSIGN_OR_RETURN(Source codes, SourceOf(shard.codes, files));
    table.codes.push_back(std::move(codes));
    if (shard.scales == nullptr) continue;
    KV8_ASSIGN_OR_RETURN(Source scales, SourceOf(shard.scales, files));
    table.scales.push_back(std::move(scales));
  }
  return {};
}

std::int64_t TableRows::work_bytes() const {
  const auto bytes = [](const auto& v) { return std::span(v.data(), v.capacity()).size_bytes(); };
  std::size_t sum = bytes(misses_) + bytes(parts_) + bytes(sources_);
  for (const Table& table : tables_) sum += bytes(table.rows) + bytes(table.bytes);
  return static_cast<std::int64_t>(sum);
}

void TableRows::Start(const Batch& batch, ThreadPool& pool) {
  batch_rows_ = static_cast<std::size_t>(batch.rows());
  misses_.clear();
  parts_.clear();
  sources_.clear();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (const SequenceRows& rows : batch.sequences) {
      const auto begin = static_cast<std::size_t>(rows.row_begin);
      const auto ids = batch.ids.subspan(begin, static_cast<std::size_t>(rows.row_count));
      for (std::size_t i = 0; i < ids.size(); ++i) {
        FillWindow(rows.state->Context(static_cast<int>(t)), ids, static_cast<std::int64_t>(i),
                   window_);
        PleRowIds(tables_[t].weights->hash, window_, ids_);
        for (std::size_t h = 0; h < ids_.size(); ++h) {
          TakeRow(t, (begin + i) * ids_.size() + h, ids_[h]);
        }
      }
    }
  }
  // In the order of the files, and rows that are wanted several times are read once.
  std::ranges::sort(misses_, {}, [](const Miss& miss) { return std::pair(miss.key, miss.row); });
  for (std::size_t i = 0; i < misses_.size(); ++i) {
    if (i == 0 || misses_[i].key != misses_[i - 1].key) AskFor(misses_[i]);
  }
  reader_.Start(parts_, pool);
  under_way_ = true;
}

/// Takes the row from the cache, or notes that it is missing.
void TableRows::TakeRow(std::size_t table, std::size_t row, std::int64_t id) {
  Table& t = tables_[table];
  Weight& out = t.rows[row];
  out = TableRow(t.weights->shards, id);
  const auto row_bytes = static_cast<std::size_t>(RowBytes(out));
  std::byte* const to = t.bytes.data() + row * row_bytes;
  out.codes = to;
  if (out.scales != nullptr) out.scales = to + out.code_row_bytes();
  const std::uint64_t key = (std::uint64_t{table} << 48) | static_cast<std::uint64_t>(id);
  ++statistics_.rows;
  if (const std::byte* const kept = cache_.Find(key); kept != nullptr) {
    std::memcpy(to, kept, row_bytes);
    ++statistics_.cached_rows;
  } else {
    misses_.push_back({key, table, row, id});
  }
}

void TableRows::AskFor(const Miss& miss) {
  Table& table = tables_[miss.table];
  const std::span<const Weight> shards = table.weights->shards;
  const auto piece = static_cast<std::size_t>(miss.id / shards.front().rows);
  const Weight stored = TableRow(shards, miss.id);
  std::byte* to = table.bytes.data() + miss.row * static_cast<std::size_t>(RowBytes(stored));
  const auto ask = [&](const Source& source, const std::byte* data, std::int64_t bytes) {
    parts_.push_back({source.fd, data - source.map, to, bytes});
    sources_.push_back(&source);
    to += bytes;
  };
  ask(table.codes[piece], stored.codes, stored.code_row_bytes());
  if (stored.scales != nullptr) ask(table.scales[piece], stored.scales, stored.scale_row_bytes());
  ++statistics_.read_rows;
}

Result<void> TableRows::Finish() {
  if (!under_way_) return {};
  under_way_ = false;
  if (const auto failure = reader_.Finish()) return FailureOf(*failure);
  const Miss* read = nullptr;
  for (const Miss& miss : misses_) {
    Table& table = tables_[miss.table];
    Weight& row = table.rows[miss.row];
    if (read != nullptr && read->key == miss.key) {
      row.codes = table.rows[read->row].codes;
      row.scales = table.rows[read->row].scales;
      continue;
    }
    cache_.Put(miss.key, row.codes, RowBytes(row));
    read = &miss;
  }
  return {};
}

Error TableRows::FailureOf(const PartReader::Failure& failure) const {
  const Source& source = *sources_[failure.part];
  const std::string where = TensorPlace(source.path.string(), source.tensor);
  if (failure.number != 0) {
    Error error = SystemError(where, "read n-gram rows", failure.number);
    if (error.remedy.empty()) error.remedy = "check the disk, and start again";
    return error;
  }
  const FilePart& part = parts_[failure.part];
  return Error{Code::kIo,
               fmt::format("the file ends before byte {}: it was cut while it was in use",
                           part.offset + part.bytes),
               where, "restore the file and start again"};
}

Result<std::span<const Weight>> TableRows::Rows(int ple_layer) {
  KV8_RETURN_IF_ERROR(Finish());
  const std::span<const Weight> rows = tables_[static_cast<std::size_t>(ple_layer)].rows;
  return rows.first(batch_rows_ * ids_.size());
}

}  // namespace kv8
