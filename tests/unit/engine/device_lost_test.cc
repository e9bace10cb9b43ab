// The GPU is lost while a request runs: it ends with that error, so does the next, and none hangs.
// Loses the device on purpose, so it has a process of its own.
#include <gtest/gtest.h>

#include "device/device.h"
#include "ops/cuda/cuda_ops.h"
#include "support/golden.h"
#include "support/make_engine.h"

namespace kv8::test {
namespace {

/// A kernel that reads where nothing is.
void LoseTheDevice() {
  const auto device = Device::Open().value();
  const cuda::CudaOps ops = cuda::CudaOps::Load(*device).value();
  DeviceStream stream = device->CreateStream().value();
  cuda::SelectBlocksArgs args{};
  args.rows.count = 1;
  args.index.index_dim = 64;
  args.index_heads = 1;
  args.selection_block_tokens = 4;
  EXPECT_TRUE(ops.SelectBlocks(stream, args).ok());
  EXPECT_FALSE(stream.Synchronize().ok());
}

TEST(DeviceLost, EndsEveryRequestWithTheError) {
  if (const auto devices = Device::List(); !devices.ok()) GTEST_SKIP() << devices.error().what;
  EngineOptions options;
  options.model = BundledModel();
  options.device = DeviceKind::kCuda;
  options.max_model_len = 256;
  options.max_num_seqs = 2;
  options.speculative_tokens = 2;
  options.prefix_cache_memory = 32 << 20;
  const auto engine = MakeEngine(options);
  std::vector<Completion> done;
  const auto submit = [&]() -> Result<RequestId> {
    Request request;
    request.prompt = Golden("edge_65").Ints("input_ids");
    request.max_tokens = 100;
    request.ignore_eos = true;
    const auto keep = [&done](Completion completion) { done.push_back(std::move(completion)); };
    return engine->Submit(std::move(request), {}, keep);
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit().ok());  // one more than run at once
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->Step());
  ASSERT_TRUE(done.empty());
  LoseTheDevice();
  EXPECT_FALSE(engine->Step());
  const auto late = submit();  // it could only fail
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().what.find("the GPU was lost"), std::string::npos);
  EXPECT_FALSE(engine->Step());
  ASSERT_EQ(done.size(), 3u);
  for (const Completion& completion : done) {
    ASSERT_TRUE(completion.error.has_value());
    EXPECT_NE(completion.error->what.find("the GPU was lost"), std::string::npos)
        << completion.error->ToString();
    EXPECT_EQ(completion.choices.front().finish_reason, FinishReason::kError);
  }
  EXPECT_EQ(engine->statistics().failed, 3u);
  EXPECT_EQ(engine->kv_cache().free_pages + engine->kv_cache().cached_pages,
            engine->kv_cache().pages);
}

}  // namespace
}  // namespace kv8::test
