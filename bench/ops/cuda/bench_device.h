// Operands on a GPU, and times by its own events.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/cuda/cuda_ops.h"

namespace kv8::bench {

/// The value of a call that a benchmark cannot go on without.
template <class T>
T Must(Result<T> result);
void Must(const Result<void>& result);

/// One GPU, its ops, and everything allocated for one measurement.
class BenchDevice {
 public:
  BenchDevice();

  Device& device() { return *device_; }
  DeviceStream& stream() { return stream_; }
  const cuda::CudaOps& ops() const { return ops_; }

  /// Memory that lives until Clear.
  std::byte* Allocate(std::int64_t bytes);
  void Clear() { memory_.clear(); }
  template <class T>
  T* Upload(const std::vector<T>& values) {
    std::byte* const data = Allocate(static_cast<std::int64_t>(values.size() * sizeof(T)));
    Must(stream_.Copy(data, values.data(), static_cast<std::int64_t>(values.size() * sizeof(T))));
    Must(stream_.Synchronize());
    return reinterpret_cast<T*>(data);
  }
  template <class T>
  T* Zeros(std::int64_t count) {
    return Upload(std::vector<T>(static_cast<std::size_t>(count)));
  }
  /// Random bytes of which each is masked with `mask` and then has `bits` set, by 16-bit element:
  /// how finite values of about 1 are made of any 16-bit or 8-bit type.
  std::byte* Random16(std::int64_t bytes, std::uint16_t mask, std::uint16_t bits);
  /// A weight of random values of about 1/64: products of 2560 terms keep the size of x.
  Weight RandomWeight(std::int64_t rows, std::int64_t cols);
  /// Not initialised.
  float* Floats(std::int64_t count) { return reinterpret_cast<float*>(Allocate(count * 4)); }
  std::uint16_t* Halves(std::int64_t count) {
    return reinterpret_cast<std::uint16_t*>(Allocate(count * 2));
  }
  std::int32_t* Ints(std::int64_t count) {
    return reinterpret_cast<std::int32_t*>(Allocate(count * 4));
  }
  /// Normal FP32 values; a million, repeated.
  float* RandomFloats(std::int64_t count, float deviation = 1.0f);

  /// Microseconds of one launch(i): all i < sets captured in one graph, replayed; the median of the
  /// replays over sets. Each i should touch other memory than the last, or caches answer.
  double MedianMicroseconds(int sets, const std::function<void(int)>& launch);
  /// Likewise of one copy, not from a graph, where copies take another, slower engine.
  double MedianCopyMicroseconds(void* to, const void* from, std::int64_t bytes);
  /// Bytes per microsecond of a large copy, read and written ones both counted. Prints the device.
  double CopyBandwidth();

 private:
  double MedianMicroseconds(const std::function<void()>& run);
  std::byte* Repeat(std::span<const std::byte> piece, std::int64_t bytes);

  std::unique_ptr<Device> device_;
  cuda::CudaOps ops_;
  DeviceStream stream_;
  std::vector<DeviceMemory> memory_;
};

template <class T>
T Must(Result<T> result) {
  Must(result.ok() ? Result<void>() : Result<void>(result.error()));
  return std::move(result).value();
}

}  // namespace kv8::bench
