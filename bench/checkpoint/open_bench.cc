// Opening the bundled checkpoint with warm page cache, and what is not part of it.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>

#include "checkpoint/finite.h"
#include "checkpoint/weights_hash.h"
#include "family/checkpoint.h"

namespace kv8 {
namespace {

const std::filesystem::path kModel = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";

void OpenCheckpoint(benchmark::State& state) {
  for (auto _ : state) {
    auto checkpoint = Checkpoint::Open(kModel);
    if (!checkpoint.ok()) state.SkipWithError(checkpoint.error().ToString().c_str());
    benchmark::DoNotOptimize(checkpoint);
  }
}
BENCHMARK(OpenCheckpoint)->Unit(benchmark::kMillisecond);

void HashKvWeights(benchmark::State& state) {
  const auto checkpoint = Checkpoint::Open(kModel);
  for (auto _ : state) benchmark::DoNotOptimize(checkpoint->KvWeightsSha256());
}
BENCHMARK(HashKvWeights)->Unit(benchmark::kMillisecond);

/// The hash of all weights by this many threads, nothing recorded: 1 GiB in 16 leaves, in memory.
void HashWeights(benchmark::State& state) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  char path[] = "/tmp/kv8-hash-XXXXXX";
  const int fd = ::mkstemp(path);
  // One tensor in a sparse file; zeros take as long to hash as anything.
  const std::string header =
      R"({"t":{"dtype":"U8","shape":[1073741824],"data_offsets":[0,1073741824]}}         )";
  const std::uint64_t length = header.size();
  const bool written = ::write(fd, &length, sizeof length) == sizeof length &&
                       ::write(fd, header.data(), length) == static_cast<ssize_t>(length) &&
                       ::ftruncate(fd, static_cast<off_t>(sizeof length + length + kBytes)) == 0;
  ::close(fd);
  const auto file = SafetensorsFile::Open(path);
  if (!written || !file.ok()) state.SkipWithError("no file to hash");
  ::setenv("XDG_CACHE_HOME", "", 1);
  ::setenv("HOME", "", 1);  // no place for records
  for (auto _ : state) {
    const auto hash = WeightsSha256({&*file}, {.threads = static_cast<int>(state.range(0))});
    if (!hash.ok()) state.SkipWithError(hash.error().ToString().c_str());
  }
  state.SetBytesProcessed(state.iterations() * kBytes);
  ::unlink(path);
}
BENCHMARK(HashWeights)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void CheckAllFinite(benchmark::State& state) {
  const auto checkpoint = Checkpoint::Open(kModel);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    for (const auto& [name, view] : checkpoint->tensors()) {
      if (!CheckFinite(view, name, "").ok()) state.SkipWithError(name.c_str());
      bytes += view.bytes();
    }
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(CheckAllFinite)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kv8
