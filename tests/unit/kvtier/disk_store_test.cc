// Whatever happens to a folder of units costs what was in them, and never gives other bytes.
#include "kvtier/disk_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>

#include "base/sha256.h"
#include "support/temp_dir.h"

namespace kv8::test {
namespace {

constexpr UnitLayout kLayout{5000, 700};  // neither is a multiple of a sector

std::string KeyOf(int i) {
  return Sha256Hex("unit " + std::to_string(i));
}

class DiskStoreTest : public testing::Test {
 protected:
  std::unique_ptr<DiskStore> Open(const std::string& model = "model",
                                  std::int64_t quota = 1 << 20) {
    auto store = DiskStore::Open(
        {.dir = dir_ / "kv", .quota = quota, .binding = Sha256Hex(model), .layout = kLayout});
    EXPECT_TRUE(store.ok());
    return std::move(store).value();
  }

  /// Unit `i` has 1 to 3 pages of bytes that follow from `i`.
  std::unique_ptr<KvUnit> Unit(int i) {
    const int pages = 1 + i % 3;
    auto unit = std::make_unique<KvUnit>(
        KvUnit{.name = {KeyOf(i + 1000), KeyOf(i), KeyOf(i), 2, 2 + pages},
               .pages = std::make_unique<UnitMemory>(used_, pages * kLayout.page_bytes),
               .state = std::make_unique<UnitMemory>(used_, kLayout.state_bytes)});
    std::mt19937 random(static_cast<unsigned>(i));
    for (std::byte& byte : unit->pages->buffer().bytes()) byte = std::byte(random());
    for (std::byte& byte : unit->state->buffer().bytes()) byte = std::byte(random());
    return unit;
  }

  /// Whether unit `i` can be read; that it is right is expected.
  bool Holds(DiskStore& store, int i) {
    const auto right = Unit(i), read = Unit(i);
    std::ranges::fill(read->pages->buffer().bytes(), std::byte{7});
    if (!store.Read(KeyOf(i), read->pages->buffer(), read->state->buffer())) return false;
    EXPECT_TRUE(std::ranges::equal(read->pages->buffer().bytes(), right->pages->buffer().bytes()));
    EXPECT_TRUE(std::ranges::equal(read->state->buffer().bytes(), right->state->buffer().bytes()));
    return true;
  }

  std::filesystem::path FileOf(int i) { return dir_ / "kv" / (KeyOf(i) + ".kv8unit"); }

  std::int64_t used_ = 0;
  TempDir dir_;
};

TEST_F(DiskStoreTest, Kvtier6_UnitsOutliveTheProcess) {
  for (int i = 0; i < 5; ++i) Open()->Write(*Unit(i));
  const auto store = Open();
  EXPECT_EQ(store->counts().files, 5u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Holds(*store, i));
  EXPECT_EQ(store->ByEnd(KeyOf(3))->parent, KeyOf(1003));
  EXPECT_EQ(store->ByExact(KeyOf(9)), nullptr);
}

TEST_F(DiskStoreTest, Kvtier7_AFlippedBitAnywhereIsNoUnit) {
  Open()->Write(*Unit(0));
  const auto size = std::filesystem::file_size(FileOf(0));
  ASSERT_EQ(size, 4096u + 8192u + 4096u);
  const std::filesystem::path whole = dir_ / "whole";
  std::filesystem::copy_file(FileOf(0), whole);
  // Magic, a number, a key, the head's hash, pages, state.
  for (const std::size_t at : {0, 9, 50, 300, 370, 4096, 9095, 12288, 12987}) {
    std::filesystem::copy_file(whole, FileOf(0), std::filesystem::copy_options::overwrite_existing);
    std::fstream file(FileOf(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte).flush();
    const auto store = Open();
    EXPECT_FALSE(Holds(*store, 0)) << at;
    EXPECT_EQ(store->counts().refused, 1u) << at;
    store->Write(*Unit(0));
    EXPECT_TRUE(Holds(*store, 0)) << "computed again, it is kept again";
  }
}

TEST_F(DiskStoreTest, Kvtier7_ATornOrForeignFileIsNoUnit) {
  for (int i = 0; i < 3; ++i) Open()->Write(*Unit(i));
  std::filesystem::resize_file(FileOf(0), 8192);
  std::filesystem::rename(FileOf(1), FileOf(7));  // another's name
  std::ofstream(FileOf(8)) << "text";
  std::ofstream(dir_ / "kv" / "notes.txt") << "somebody's";
  std::filesystem::create_directory(FileOf(9));
  const auto store = Open();
  EXPECT_EQ(store->counts().files, 1u);
  for (const int i : {0, 1, 7, 8, 9}) EXPECT_FALSE(Holds(*store, i)) << i;
  EXPECT_TRUE(Holds(*store, 2));
  std::filesystem::resize_file(FileOf(2), 5000);
  EXPECT_FALSE(Holds(*store, 2)) << "cut after it was found";
  EXPECT_TRUE(std::filesystem::exists(dir_ / "kv" / "notes.txt"));
}

TEST_F(DiskStoreTest, Kvtier7_AnotherModelsUnitsAreLeftAlone) {
  Open("model")->Write(*Unit(0));
  const auto other = Open("other");
  EXPECT_EQ(other->counts().files, 0u);
  EXPECT_FALSE(Holds(*other, 0));
  EXPECT_TRUE(std::filesystem::exists(FileOf(0)));
}

TEST_F(DiskStoreTest, Kvtier7_ADiskThatTakesNoMoreCostsOnlyWhatIsNotKept) {
  const auto store = Open();
  store->Write(*Unit(0));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 8192;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  store->Write(*Unit(1));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(store->counts().failed, 1u);
  EXPECT_FALSE(Holds(*store, 1));
  EXPECT_TRUE(Holds(*store, 0));
  store->Write(*Unit(1));
  EXPECT_TRUE(Holds(*store, 1));
}

TEST_F(DiskStoreTest, Kvtier7_AKilledWriterLeavesWholeUnits) {
  std::mt19937 random(5);
  int found = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = Open();
      for (int i = 0; i < 20; ++i) store->Write(*Unit(i));
      for (;;) ::pause();
    }
    ::usleep(2000 + random() % 8000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto store = Open();
    EXPECT_TRUE(store->writes()) << "the lock went with its holder";
    EXPECT_EQ(store->counts().refused, 0u);
    for (int i = 0; i < 20; ++i) found += Holds(*store, i) ? 1 : 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "kv")) {
      EXPECT_NE(entry.path().extension(), ".unfinished");
    }
  }
  EXPECT_GT(found, 0);
}

TEST_F(DiskStoreTest, Kvtier8_TheFirstWritesTheSecondReads) {
  const auto first = Open();
  const auto second = Open();
  EXPECT_TRUE(first->writes());
  EXPECT_FALSE(second->writes());
  second->Write(*Unit(0));
  EXPECT_FALSE(std::filesystem::exists(FileOf(0)));
  ::usleep(20000);  // file systems count time in ticks
  first->Write(*Unit(1));
  second->Refresh();
  EXPECT_TRUE(Holds(*second, 1));
  std::filesystem::remove(FileOf(1));
  EXPECT_FALSE(Holds(*second, 1)) << "the writer gave it up in between";
}

TEST_F(DiskStoreTest, Kvtier9_KeepsToItsQuotaAndWhatWasUsedLast) {
  const auto store = Open("model", 4 * (4096 + 8192 + 4096));
  for (const int i : {0, 3, 6, 9}) store->Write(*Unit(i));
  EXPECT_TRUE(Holds(*store, 0));
  store->Write(*Unit(12));
  EXPECT_TRUE(Holds(*store, 0));
  EXPECT_FALSE(std::filesystem::exists(FileOf(3)));
  EXPECT_LE(store->counts().bytes, 4u * (4096 + 8192 + 4096));
}

TEST_F(DiskStoreTest, Kvtier9_RefusesAQuotaForNothingAndAFolderThatCannotBe) {
  DiskStoreOptions options{
      .dir = dir_ / "kv", .quota = 4096, .binding = Sha256Hex(""), .layout = kLayout};
  EXPECT_EQ(DiskStore::Open(options).error().code, Code::kResourceExhausted);
  std::ofstream(dir_ / "file") << "x";
  options.quota = 1 << 20;
  options.dir = dir_ / "file" / "kv";
  const Error error = DiskStore::Open(options).error();
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.where, "--kv-disk");
}

}  // namespace
}  // namespace kv8::test
