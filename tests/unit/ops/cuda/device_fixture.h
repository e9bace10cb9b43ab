// One GPU and its ops for all tests of a program.
//
// KV8_TEST_BACKEND=sm70 in the environment runs the V100's code instead of the device's own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/cuda/cuda_ops.h"

namespace kv8::cuda {

/// An array on the device that starts as a copy of host values.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, DeviceStream& stream, std::span<const T> values)
      : stream_(&stream), count_(values.size()) {
    memory_ = device.Allocate(static_cast<std::int64_t>(values.size_bytes()), "a test").value();
    EXPECT_TRUE(stream.Copy(memory_.data(), values.data(), memory_.bytes()).ok());
    EXPECT_TRUE(stream.Synchronize().ok());
  }
  T* data() const { return memory_.As<T>(); }

  /// Waits for the stream and returns what the array holds.
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    EXPECT_TRUE(stream_->Copy(values.data(), memory_.data(), memory_.bytes()).ok());
    const Result<void> done = stream_->Synchronize();
    EXPECT_TRUE(done.ok()) << done.error().ToString();
    return values;
  }

 private:
  DeviceStream* stream_;
  std::size_t count_;
  DeviceMemory memory_;
};

class CudaTest : public testing::Test {
 protected:
  struct Shared {
    std::unique_ptr<Device> device;
    std::optional<CudaOps> ops;
    DeviceStream stream;
  };

  void SetUp() override {
    static Result<Shared> shared = Start();
    if (!shared.ok()) GTEST_SKIP() << shared.error().ToString();
    shared_ = &*shared;
  }

  Device& device() { return *shared_->device; }
  DeviceStream& stream() { return shared_->stream; }
  const CudaOps& ops() { return *shared_->ops; }

  template <class T>
  OnDevice<T> Upload(const std::vector<T>& values) {
    return OnDevice<T>(device(), stream(), values);
  }
  /// `count` elements whose every byte is `fill`.
  template <class T>
  OnDevice<T> Filled(std::int64_t count, int fill) {
    std::vector<T> values(static_cast<std::size_t>(count));
    std::memset(values.data(), fill, values.size() * sizeof(T));
    return Upload(values);
  }

 private:
  static Result<Shared> Start() {
    Shared shared;
    KV8_ASSIGN_OR_RETURN(shared.device, Device::Open());
    const char* const backend = std::getenv("KV8_TEST_BACKEND");
    const bool sm70 = backend != nullptr && std::string_view(backend) == "sm70";
    KV8_ASSIGN_OR_RETURN(
        CudaOps loaded,
        CudaOps::Load(*shared.device, sm70 ? CodeChoice::kSm70 : CodeChoice::kForDevice));
    shared.ops = std::move(loaded);
    KV8_ASSIGN_OR_RETURN(shared.stream, shared.device->CreateStream());
    return shared;
  }

  Shared* shared_ = nullptr;
};

}  // namespace kv8::cuda
