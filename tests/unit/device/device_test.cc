// Memory, streams, events and graphs of a GPU; without one, that its absence is told.
#include "device/device.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace kv8 {
namespace {

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Device>> opened = Device::Open();
    if (!opened.ok()) GTEST_SKIP() << opened.error().ToString();
    device_ = std::move(opened).value();
    stream_ = std::move(device_->CreateStream()).value();
  }
  std::unique_ptr<Device> device_;
  DeviceStream stream_;
};

TEST(DeviceAbsence, IsAnErrorThatSaysWhatToDo) {
  const auto devices = Device::List();
  if (devices.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(devices.error().code, Code::kUnsupported);
  EXPECT_NE(devices.error().what, "");
  EXPECT_NE(devices.error().remedy, "");
  EXPECT_EQ(Device::Open().error().what, devices.error().what);
}

TEST_F(DeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_GE(info.architecture, 70);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_NE(info.name, "");
  const DeviceMemoryInfo memory = device_->Memory().value();
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST_F(DeviceTest, UnknownOrdinalNamesTheRange) {
  const auto device = Device::Open(1000);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, Code::kInvalidArgument);
  EXPECT_NE(device.error().what.find("there is no GPU 1000"), std::string::npos);
}

TEST_F(DeviceTest, TooLittleMemorySaysTheNumbers) {
  const auto memory = device_->Allocate(std::int64_t{1} << 50, "the K/V cache");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, Code::kResourceExhausted);
  EXPECT_NE(memory.error().what.find("the K/V cache needs 1125899906842624 bytes"),
            std::string::npos)
      << memory.error().what;
  EXPECT_NE(memory.error().what.find(std::to_string(device_->Memory()->total_bytes)),
            std::string::npos);
  EXPECT_TRUE(device_->Allocate(1 << 20, "something that fits").ok());
}

TEST_F(DeviceTest, FreedMemoryComesBack) {
  const std::int64_t bytes = std::int64_t{1} << 30;
  const std::int64_t before = device_->Memory()->free_bytes;
  {
    DeviceMemory memory = device_->Allocate(bytes, "a test").value();
    DeviceMemory moved = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    EXPECT_LE(device_->Memory()->free_bytes, before - bytes);
  }
  EXPECT_EQ(device_->Memory()->free_bytes, before);
}

TEST_F(DeviceTest, CopiesFillsAndTimes) {
  constexpr std::int64_t kCount = 1 << 20;
  DeviceMemory host = device_->AllocateHost(kCount * 4, "a test").value();
  DeviceMemory here = device_->Allocate(kCount * 4, "a test").value();
  DeviceMemory there = device_->Allocate(kCount * 4, "a test").value();
  std::iota(host.As<int>(), host.As<int>() + kCount, 0);
  const DeviceEvent start = device_->CreateEvent().value(), end = device_->CreateEvent().value();
  ASSERT_TRUE(stream_.Record(start).ok());
  ASSERT_TRUE(stream_.Copy(here.data(), host.data(), host.bytes()).ok());
  ASSERT_TRUE(stream_.Copy(there.data(), here.data(), host.bytes()).ok());
  ASSERT_TRUE(stream_.Fill(there.data(), std::byte{0xFF}, 8).ok());
  ASSERT_TRUE(stream_.Copy(host.data(), there.data(), host.bytes()).ok());
  ASSERT_TRUE(stream_.Record(end).ok());
  ASSERT_TRUE(stream_.Synchronize().ok());
  EXPECT_EQ(host.As<int>()[1], -1);
  EXPECT_EQ(host.As<int>()[2], 2);
  EXPECT_EQ(host.As<int>()[kCount - 1], kCount - 1);
  EXPECT_GT(end.MillisecondsSince(start).value(), 0.0f);
}

TEST_F(DeviceTest, GraphsReplayWhatWasCaptured) {
  DeviceMemory host = device_->AllocateHost(16, "a test").value();
  DeviceMemory memory = device_->Allocate(16, "a test").value();
  ASSERT_TRUE(stream_.BeginCapture().ok());
  ASSERT_TRUE(stream_.Fill(memory.data(), std::byte{7}, 16).ok());
  ASSERT_TRUE(stream_.Copy(host.data(), memory.data(), 16).ok());
  const DeviceGraph graph = stream_.EndCapture().value();
  for (int round = 0; round < 2; ++round) {
    std::fill_n(host.data(), 16, std::byte{0});
    ASSERT_TRUE(stream_.Launch(graph).ok());
    ASSERT_TRUE(stream_.Synchronize().ok());
    EXPECT_EQ(host.data()[15], std::byte{7});
  }
}

TEST_F(DeviceTest, CodeThatIsNoneIsRefused) {
  const std::vector<std::byte> garbage(256, std::byte{0x41});
  const auto module = device_->LoadModule(garbage, "garbage");
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.error().what.find("garbage"), std::string::npos);
}

}  // namespace
}  // namespace kv8
