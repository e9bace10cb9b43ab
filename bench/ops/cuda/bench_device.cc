#include "bench_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace kv8::bench {

void Must(const Result<void>& result) {
  if (result.ok()) return;
  fmt::print(stderr, "{}\n", result.error().ToString());
  std::exit(1);
}

BenchDevice::BenchDevice()
    : device_(Must(Device::Open())),
      ops_(Must(cuda::CudaOps::Load(*device_, std::getenv("KV8_TEST_SM70") != nullptr
                                                  ? cuda::CodeChoice::kSm70
                                                  : cuda::CodeChoice::kForDevice))),
      stream_(Must(device_->CreateStream())) {}

std::byte* BenchDevice::Allocate(std::int64_t bytes) {
  memory_.push_back(Must(device_->Allocate(bytes, "an operand")));
  return memory_.back().data();
}

std::byte* BenchDevice::Repeat(std::span<const std::byte> piece, std::int64_t bytes) {
  std::byte* const to = Allocate(bytes);
  const auto size = static_cast<std::int64_t>(piece.size());
  Must(stream_.Copy(to, piece.data(), std::min(size, bytes)));
  Must(stream_.Synchronize());
  for (std::int64_t done = size; done < bytes;) {
    const std::int64_t part = std::min(done, bytes - done);
    Must(stream_.Copy(to + done, to, part));
    done += part;
  }
  Must(stream_.Synchronize());
  return to;
}

std::byte* BenchDevice::Random16(std::int64_t bytes, std::uint16_t mask, std::uint16_t bits) {
  static const std::vector<std::uint16_t> random = [] {
    std::mt19937 engine(1);
    std::vector<std::uint16_t> values(1 << 22);
    for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(engine());
    return values;
  }();
  std::vector<std::uint16_t> piece = random;
  for (std::uint16_t& value : piece) value = static_cast<std::uint16_t>((value & mask) | bits);
  return Repeat(std::as_bytes(std::span(piece)), bytes);
}

Weight BenchDevice::RandomWeight(std::int64_t rows, std::int64_t cols) {
  return {WeightFormat::kBf16, rows, cols, Random16(rows * cols * 2, 0x81FF, 0x3C00)};
}

double BenchDevice::CopyBandwidth() {
  constexpr std::int64_t kBytes = std::int64_t{4} << 30;
  std::byte* const from = Random16(kBytes, 0xFFFF, 0);
  std::byte* const to = Allocate(kBytes);
  const double bytes_per_us = 2.0 * kBytes / MedianCopyMicroseconds(to, from, kBytes);
  const DeviceInfo& info = device_->info();
  fmt::print("{} (sm_{}, {} multiprocessors, driver {}), copy {:.2f} TB/s\n", info.name,
             info.architecture, info.multiprocessors, info.driver_version, bytes_per_us / 1e6);
  Clear();
  return bytes_per_us;
}

float* BenchDevice::RandomFloats(std::int64_t count, float deviation) {
  std::mt19937 engine(2);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> piece(1 << 20);
  for (float& value : piece) value = normal(engine);
  return reinterpret_cast<float*>(Repeat(std::as_bytes(std::span(piece)), count * 4));
}

double BenchDevice::MedianMicroseconds(const std::function<void()>& run) {
  constexpr int kWarmUps = 3, kRuns = 21;
  const DeviceEvent start = Must(device_->CreateEvent()), end = Must(device_->CreateEvent());
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kRuns; ++i) {
    Must(stream_.Record(start));
    run();
    Must(stream_.Record(end));
    Must(stream_.Synchronize());
    if (i >= kWarmUps) times.push_back(1000.0 * Must(end.MillisecondsSince(start)));
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

double BenchDevice::MedianMicroseconds(int sets, const std::function<void(int)>& launch) {
  Must(stream_.BeginCapture());
  for (int i = 0; i < sets; ++i) launch(i);
  const DeviceGraph graph = Must(stream_.EndCapture());
  return MedianMicroseconds([&] { Must(stream_.Launch(graph)); }) / sets;
}

double BenchDevice::MedianCopyMicroseconds(void* to, const void* from, std::int64_t bytes) {
  return MedianMicroseconds([&] { Must(stream_.Copy(to, from, bytes)); });
}

}  // namespace kv8::bench
