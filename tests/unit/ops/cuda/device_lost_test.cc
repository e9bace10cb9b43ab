// A kernel that reads where nothing is: every later call fails with a clear error, and none hangs.
#include <gtest/gtest.h>

#include "device/device.h"
#include "ops/cuda/cuda_ops.h"

namespace kv8 {
namespace {

TEST(DeviceLost, EveryLaterCallSaysSo) {
  auto opened = Device::Open();
  if (!opened.ok()) GTEST_SKIP() << opened.error().ToString();
  Device& device = **opened;
  const cuda::CudaOps ops = cuda::CudaOps::Load(device).value();
  DeviceStream stream = device.CreateStream().value();
  DeviceMemory memory = device.Allocate(64, "a test").value();
  cuda::SelectBlocksArgs args{};  // a row whose arrays are at address 0
  args.rows.count = 1;
  args.index.index_dim = 64;
  args.index_heads = 1;
  args.selection_block_tokens = 4;
  ASSERT_TRUE(ops.SelectBlocks(stream, args).ok());  // only enqueued
  for (const Result<void>& later :
       {stream.Synchronize(), stream.Fill(memory.data(), std::byte{0}, 64), stream.Synchronize()}) {
    ASSERT_FALSE(later.ok());
    EXPECT_EQ(later.error().code, Code::kIo);
    EXPECT_NE(later.error().what.find("the GPU was lost"), std::string::npos)
        << later.error().ToString();
    EXPECT_NE(later.error().remedy.find("restart"), std::string::npos);
  }
  EXPECT_FALSE(device.Allocate(64, "a test").ok());
}

}  // namespace
}  // namespace kv8
