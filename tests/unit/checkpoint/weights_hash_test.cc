#include "checkpoint/weights_hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/sha256.h"
#include "checkpoint/weights_record.h"
#include "support/safetensors_image.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

/// Two shards, one of them of three leaves, and a cache directory of its own.
class WeightsHash : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", (dir_ / "cache").c_str(), 1);
    Write("b.safetensors", 8);
    Write("a.safetensors", static_cast<std::int64_t>(2 * kHashLeafBytes));
  }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  /// A shard with one U8 tensor of zeros; the file is sparse, so it costs no disk.
  void Write(const std::string& name, std::int64_t size) {
    std::string header =
        fmt::format(R"({{"t":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", size, size);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    std::ofstream out(dir_ / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
    out.close();
    fs::resize_file(dir_ / name, sizeof length + header.size() + static_cast<std::size_t>(size));
  }
  Result<std::optional<std::string>> Hash(WeightsHashOptions options = {}) {
    std::vector<SafetensorsFile> files;
    for (const char* name : {"b.safetensors", "a.safetensors"}) {
      files.push_back(SafetensorsFile::Open(dir_ / name).value());
    }
    std::vector<const SafetensorsFile*> shards;
    for (const SafetensorsFile& file : files) shards.push_back(&file);
    hashed_ = 0;
    options.progress = [this](std::uint64_t done, std::uint64_t) {
      hashed_ = done;
      return go_on_;
    };
    return WeightsSha256(shards, options);
  }
  std::string Expected() const {
    std::string lines;
    for (const std::string name : {"a.safetensors", "b.safetensors"}) {
      std::ostringstream text;
      text << std::ifstream(dir_ / name, std::ios::binary).rdbuf();
      const std::string bytes = std::move(text).str();
      std::string tree = fmt::format("{}\n", bytes.size());
      for (std::size_t i = 0; i < bytes.size(); i += kHashLeafBytes) {
        tree += Sha256Hex(bytes.substr(i, kHashLeafBytes)) + "\n";
      }
      lines += fmt::format("{}  {}\n", Sha256Hex(tree), name);
    }
    return Sha256Hex(lines);
  }
  static void OutlastTheClockTick() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  }

  test::TempDir dir_;
  std::uint64_t hashed_ = 0;
  bool go_on_ = true;
};

TEST_F(WeightsHash, IsTheTreeForAnyNumberOfThreads) {
  const std::string expected = Expected();
  for (const int threads : {1, 3}) {
    EXPECT_EQ(Hash({.threads = threads})->value(), expected) << threads;
  }
}

TEST_F(WeightsHash, StopsWhenAsked) {
  go_on_ = false;
  const auto stopped = Hash();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
}

TEST_F(WeightsHash, Scale33_ARecordHoldsWhileTheFilesStandUnchanged) {
  const std::string first = Hash()->value();  // written just now: not to be recorded
  EXPECT_GT(hashed_, 0u);
  EXPECT_FALSE(Hash({.recorded_only = true})->has_value());
  OutlastTheClockTick();
  EXPECT_EQ(Hash()->value(), first);
  EXPECT_GT(hashed_, 0u);
  EXPECT_EQ(Hash()->value(), first);
  EXPECT_EQ(hashed_, 0u);  // nothing was read
  EXPECT_EQ(Hash({.recorded_only = true})->value(), first);

  // An edit that sets the time back as it was is found too.
  const auto time = fs::last_write_time(dir_ / "b.safetensors");
  std::fstream(dir_ / "b.safetensors", std::ios::binary | std::ios::in | std::ios::out)
      .seekp(-1, std::ios::end)
      .put('x');
  fs::last_write_time(dir_ / "b.safetensors", time);
  EXPECT_FALSE(Hash({.recorded_only = true})->has_value());
  EXPECT_NE(Hash()->value(), first);
}

TEST_F(WeightsHash, Scale33_RecordsOfOthersAreNotBelieved) {
  OutlastTheClockTick();
  ASSERT_TRUE(Hash().ok());
  ASSERT_TRUE(Hash({.recorded_only = true})->has_value());
  std::vector<fs::path> records;
  for (const auto& entry : fs::directory_iterator(WeightsRecordDir())) {
    records.push_back(entry.path());
  }
  ASSERT_EQ(records.size(), 2u);
  ::chmod(records[0].c_str(), 0666);  // anybody may have written it
  EXPECT_FALSE(Hash({.recorded_only = true})->has_value());
  ASSERT_TRUE(Hash().ok());  // read, and recorded anew
  EXPECT_TRUE(Hash({.recorded_only = true})->has_value());
  test::WriteFile(records[1], "{");
  EXPECT_FALSE(Hash({.recorded_only = true})->has_value());
}

TEST_F(WeightsHash, WithoutAPlaceForRecordsEverythingIsRead) {
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  const char* const home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::unsetenv("HOME");
  EXPECT_TRUE(WeightsRecordDir().empty());
  EXPECT_EQ(Hash()->value(), Expected());
  if (home != nullptr) ::setenv("HOME", before.c_str(), 1);
}

TEST(WeightsRecord, RoundTrips) {
  const WeightsRecord record{{1, 2, 3, 4, 5}, std::string(64, 'a')};
  const auto read = ParseWeightsRecord(WeightsRecordToJson(record), "r.json");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->stamp, record.stamp);
  EXPECT_EQ(read->sha256, record.sha256);
  const Json json = WeightsRecordToJson(record);
  for (const auto& [key, value] : json.items()) {
    Json bad = json;
    bad[key] = -1;
    EXPECT_FALSE(ParseWeightsRecord(bad, "r.json").ok()) << key;
  }
}

}  // namespace
}  // namespace kv8
