// What kv8 asks of a driver and a GPU, without either.
#include <gtest/gtest.h>

#include "device/cuda/driver.h"

namespace kv8 {
namespace {

TEST(DeviceRequirements, DriverTooOldSaysBothVersions) {
  EXPECT_TRUE(CheckDriverVersion(12000).ok());
  EXPECT_TRUE(CheckDriverVersion(13000).ok());
  const Result<void> old = CheckDriverVersion(11080);
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code, Code::kUnsupported);
  EXPECT_EQ(old.error().what, "the driver supports CUDA 11.8, kv8 needs 12.0 or later");
  EXPECT_NE(old.error().remedy, "");
}

TEST(DeviceRequirements, ArchitectureBelowVoltaIsNamed) {
  EXPECT_TRUE(CheckArchitecture("GPU 0 (Tesla V100)", 70).ok());
  EXPECT_TRUE(CheckArchitecture("GPU 0 (NVIDIA H200)", 90).ok());
  const Result<void> pascal = CheckArchitecture("GPU 1 (Tesla P100)", 60);
  ASSERT_FALSE(pascal.ok());
  EXPECT_EQ(pascal.error().code, Code::kUnsupported);
  EXPECT_EQ(pascal.error().what, "its compute capability is 6.0, kv8 has code from 7.0 on");
  EXPECT_EQ(pascal.error().where, "GPU 1 (Tesla P100)");
}

TEST(DeviceRequirements, EarlyLaunchesNeedTheirDriverAndCodeThatWaits) {
  EXPECT_TRUE(BeginsEarly(12030, 90));
  EXPECT_TRUE(BeginsEarly(13000, 100));
  EXPECT_FALSE(BeginsEarly(12020, 90));
  EXPECT_FALSE(BeginsEarly(13000, 80));
  EXPECT_FALSE(BeginsEarly(13000, 70));  // V100 code, on whatever device
}

TEST(DeviceRequirements, LostDeviceAndFullMemoryReadDifferently) {
  const DriverApi silent{};  // a driver that names no error
  const Error lost = DriverError(silent, DriverStatus::kIllegalAddress, "copy 12 bytes");
  EXPECT_EQ(lost.code, Code::kIo);
  EXPECT_EQ(lost.what, "the GPU was lost: cannot copy 12 bytes: unknown error (700)");
  EXPECT_NE(lost.remedy, "");
  const Error full = DriverError(silent, DriverStatus::kOutOfMemory, "open GPU 0");
  EXPECT_EQ(full.code, Code::kResourceExhausted);
  const Error foreign = DriverError(silent, DriverStatus::kNoBinaryForGpu, "load the code of gdn");
  EXPECT_EQ(foreign.code, Code::kUnsupported);
  EXPECT_TRUE(Check(silent, DriverStatus::kSuccess, "x").ok());
}

}  // namespace
}  // namespace kv8
