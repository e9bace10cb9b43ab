// Rows of n-gram tables read from their files: those of the mapped tables, bit by bit.
#include "model/cpu/table_rows.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "model/loaded_model.h"
#include "ops/ple_hash.h"
#include "support/or_throw.h"
#include "support/refuses.h"
#include "support/temp_dir.h"
#include "synth/synth.h"

namespace kv8 {
namespace {

constexpr std::int64_t kRows = 40;

/// A model with an n-gram table in this format, heads of 16 columns, in files of its own.
LoadedModel Written(const std::filesystem::path& out, WeightFormat table) {
  Json config = test::OrThrow(MakeConfig({.source = "tiny"}));
  config["text_config"]["ple_embed_dim"] = 128;
  config["text_config"]["ngram_vocab_size_base"] = 300;
  test::WriteFile(out.string() + ".json", config.dump());
  SynthRequest request{.output = out,
                       .dimensions = {.source = out.string() + ".json", .layers = 6},
                       .shard_bytes = 1,
                       .seed = 5};
  request.formats.table = table;
  test::OrThrow(Synthesise(request));
  return test::OrThrow(LoadedModel::Open({.dir = out}));
}

std::unique_ptr<TableRows> Open(const LoadedModel& model, std::int64_t cache, bool ring,
                                ReadCall* call = ::pread) {
  Result<std::unique_ptr<ReadQueue>> queue = Error{Code::kUnsupported, "not here", "", ""};
  if (ring) queue = OpenRing();
  return test::OrThrow(
      TableRows::Open(model.model(), model.checkpoint(), cache, kRows, std::move(queue), call));
}

/// Two sequences side by side.
struct Sequences {
  explicit Sequences(const Model& model) : layout(StateLayout::For(model.spec, false)) {
    for (int i = 0; i < 2; ++i) states.emplace_back(layout).Reset();
  }
  /// The next pass: `first` rows of one sequence, the others of the other.
  Batch Next(std::int64_t rows, std::int64_t first, TokenId below) {
    ids.clear();
    for (std::int64_t i = 0; i < rows; ++i) {
      ids.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(below)));
    }
    items = {{.row_begin = 0, .row_count = first, .state = &states[0]},
             {.row_begin = first, .row_count = rows - first, .state = &states[1]}};
    return {ids, items};
  }
  StateLayout layout;
  std::vector<SequenceState> states;
  std::vector<TokenId> ids;
  std::vector<SequenceRows> items;
  std::mt19937 random{7};
};

std::vector<std::int64_t> IdsOf(const PleHash& hash, const Batch& batch, int layer,
                                std::int64_t row) {
  std::vector<std::int64_t> ids(hash.head_sizes.size());
  std::vector<TokenId> window(hash.multipliers.size());
  for (const SequenceRows& s : batch.sequences) {
    if (row < s.row_begin || row >= s.row_begin + s.row_count) continue;
    FillWindow(s.state->Context(layer),
               batch.ids.subspan(static_cast<std::size_t>(s.row_begin),
                                 static_cast<std::size_t>(s.row_count)),
               row - s.row_begin, window);
  }
  PleRowIds(hash, window, ids);
  return ids;
}

void ExpectMapped(const LoadedModel& model, TableRows& rows, const Batch& batch) {
  int layer = 0;
  for (const LayerWeights& weights : model.model().weights.layers) {
    if (!weights.ple) continue;
    const auto got = test::OrThrow(rows.Rows(layer));
    std::size_t i = 0;
    for (std::int64_t t = 0; t < batch.rows(); ++t) {
      for (const std::int64_t id : IdsOf(weights.ple->hash, batch, layer, t)) {
        const Weight mapped = TableRow(weights.ple->shards, id);
        ASSERT_LT(i, got.size());
        const Weight& row = got[i++];
        ASSERT_NE(row.codes, mapped.codes);
        const auto codes = static_cast<std::size_t>(mapped.code_row_bytes());
        ASSERT_EQ(std::memcmp(row.codes, mapped.codes, codes), 0);
        const auto scales = static_cast<std::size_t>(mapped.scale_row_bytes());
        ASSERT_EQ(scales == 0 ? 0 : std::memcmp(row.scales, mapped.scales, scales), 0);
        ASSERT_EQ(row.global_scale, mapped.global_scale);
      }
    }
    EXPECT_EQ(i, got.size());
    ++layer;
  }
  EXPECT_EQ(layer, 2);
}

TEST(TableRows, AreThoseOfTheMappedTable) {
  const test::TempDir dir;
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kNvfp4}) {
    const LoadedModel model = Written(dir / Name(format), format);
    // Nothing is kept; what is kept makes room for other rows; everything is kept.
    for (const std::int64_t cache : {1, 3000, 1 << 20}) {
      for (const bool ring : {false, true}) {
        const auto rows = Open(model, cache, ring);
        Sequences sequences(model.model());
        ThreadPool pool(3);
        for (const std::int64_t count : {kRows, std::int64_t{1}, std::int64_t{7}, kRows}) {
          const Batch batch = sequences.Next(count, count / 3, 30);
          rows->Start(batch, pool);
          ExpectMapped(model, *rows, batch);
        }
        const NgramTableStatistics& seen = rows->statistics();
        EXPECT_EQ(seen.rows, (2 * kRows + 8) * 16u);
        EXPECT_LE(seen.read_rows + seen.cached_rows, seen.rows);
        EXPECT_EQ(seen.cached_rows > 0, cache > 1);
        EXPECT_LE(rows->cache_bytes(), cache);
        EXPECT_EQ(rows->cache_bytes(), TableRows::CacheBytes(model.model(), cache));
        EXPECT_EQ(rows->work_bytes(), TableRows::WorkBytes(model.model(), kRows));
        EXPECT_EQ(seen.refusal, ring ? "" : "not here");
      }
    }
  }
}

TEST(TableRows, Cli92_FailuresNameFileAndTensor) {
  const test::TempDir dir;
  const LoadedModel model = Written(dir / "model", WeightFormat::kNvfp4);
  ThreadPool pool(2);
  Sequences sequences(model.model());
  const auto rows = Open(model, 1 << 20, false, [](int, void*, std::size_t, off_t) -> ssize_t {
    errno = EIO;
    return -1;
  });
  rows->Start(sequences.Next(3, 1, 100), pool);
  EXPECT_TRUE(test::Refuses(rows->Rows(0), Code::kIo,
                            {".safetensors", "ngram_embedding.shard_", "Input/output"}));
}

/// A map would end the process with SIGBUS.
TEST(TableRows, Cli92_AFileThatIsCutUnderTheRunIsAnError) {
  const test::TempDir dir;
  const LoadedModel model = Written(dir / "model", WeightFormat::kBf16);
  for (const bool ring : {false, true}) {
    const auto rows = Open(model, 1 << 20, ring);
    for (const auto& layer : model.model().weights.layers) {
      if (!layer.ple) continue;
      for (const Weight& shard : layer.ple->shards) {
        std::filesystem::resize_file(model.checkpoint().PlaceOf(shard.codes).file->path(), 400);
      }
    }
    ThreadPool pool(2);
    Sequences sequences(model.model());
    rows->Start(sequences.Next(kRows, 1, 100), pool);
    EXPECT_TRUE(test::Refuses(rows->Rows(0), Code::kIo,
                              {".safetensors", "ngram_embedding.shard_", "ends before"}));
    for (const auto& file : model.checkpoint().files()) {  // back to what was opened, but for bytes
      std::filesystem::resize_file(file.path(), file.stamp().size);
      std::filesystem::last_write_time(
          file.path(), std::filesystem::file_time_type(std::chrono::file_clock::from_sys(
                           std::chrono::sys_time<std::chrono::nanoseconds>(
                               std::chrono::nanoseconds(file.stamp().modified_ns)))));
    }
  }
}

TEST(RowCache, TheRowUsedLongestAgoMakesRoom) {
  RowCache cache(3 * (8 + 16) + 5, 8);  // room for three
  EXPECT_EQ(cache.bytes(), 72);
  const std::byte row[8] = {std::byte{1}};
  for (const std::uint64_t key : {1, 2, 3}) cache.Put(key, row, 8);
  EXPECT_NE(cache.Find(1), nullptr);
  cache.Put(4, row, 8);
  EXPECT_EQ(cache.Find(2), nullptr);
  for (const std::uint64_t key : {1, 3, 4}) EXPECT_NE(cache.Find(key), nullptr) << key;
  RowCache none(20, 8);
  none.Put(1, row, 8);
  EXPECT_EQ(none.Find(1), nullptr);
  EXPECT_EQ(none.bytes(), 0);
}

}  // namespace
}  // namespace kv8
