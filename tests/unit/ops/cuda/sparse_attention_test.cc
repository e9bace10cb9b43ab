// Sparse attention on the GPU against its oracle, and the promises that no oracle checks.
#include <limits>

#include "unit/ops/cuda/attention_case.h"

namespace kv8::cuda {
namespace {

using CudaSparseAttention = CudaTest;

TEST_F(CudaSparseAttention, MatchesTheOracle) {
  for (const AttentionShape& shape :
       {AttentionShape{12, 2, 64, 64}, AttentionShape{24, 2, 256, 512},
        AttentionShape{16, 1, 128, 70}, AttentionShape{3, 1, 256, 5},
        AttentionShape{10, 5, 64, 130}}) {
    for (const KvDType dtype : kTypes) {
      AttentionCase test(shape, dtype,
                         {{1, 1}, {4, 4}, {67, 6}, {2600, 5}, {5, 1}, {64, 1}, {261, 2}, {300, 1}});
      AttentionLaunch launch(device(), stream(), test);
      ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
      ExpectClose(launch.Out(), test.Expected());
    }
  }
}

TEST_F(CudaSparseAttention, BitsDependOnTheRowAlone) {
  for (const KvDType dtype : kTypes) {
    const AttentionShape shape{24, 2, 256, 512};
    AttentionCase all(shape, dtype, {{2500, 3}, {37, 9}, {4000, 2}});
    AttentionLaunch together(device(), stream(), all);
    ASSERT_TRUE(ops().SparseAttention(stream(), together.Args()).ok());
    const std::vector<float> expected = together.Out();
    for (std::int64_t row = 0; row < all.batch.rows(); row += 4) {
      SparseAttentionArgs args = together.Args();
      args.rows.sequence += row, args.rows.position += row, args.rows.count = 1;
      args.query += row * all.width, args.gate += row * 2 * all.width;
      args.blocks += row * shape.budget, args.counts += row, args.out += row * all.width;
      ASSERT_TRUE(stream().Fill(args.out, std::byte{0xFF}, all.width * 4).ok());
      ASSERT_TRUE(ops().SparseAttention(stream(), args).ok());
    }
    const std::vector<float> alone = together.Out();
    EXPECT_EQ(std::memcmp(alone.data(), expected.data(), alone.size() * 4), 0);
  }
}

/// All 256 codes through the path that decodes V: one token, so its weight is one.
TEST_F(CudaSparseAttention, EveryCodeDecodesExactly) {
  AttentionCase test({1, 1, 256, 4}, KvDType::kE4M3, {{1, 1}});
  test.batch.v_scale = 1.0f;
  std::fill(test.gate.begin(), test.gate.end(), 100.0f);
  std::byte* const value = test.batch.Slices()[0].kv.At(KvSide::kValue, 0, 0);
  for (int code = 0; code < 256; ++code) value[code] = static_cast<std::byte>(code);
  AttentionLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  const std::vector<float> out = launch.Out();
  for (int code = 0; code < 256; ++code) {
    const float exact = DecodeE4M3(static_cast<std::uint8_t>(code));
    const float got = out[static_cast<std::size_t>(code)];
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(got, exact) << code;
    }
  }
}

/// All 256 codes through the path that decodes K: unit queries against one token at a time.
TEST_F(CudaSparseAttention, EveryKeyCodeWeighsAsItsValue) {
  AttentionCase test({16, 1, 256, 4}, KvDType::kE4M3, {{2, 1}});
  test.batch.k_scale = 0.25f;
  const QsaSlice slice = test.batch.Slices()[0];
  std::byte* const one = slice.kv.At(KvSide::kKey, 0, 0);
  std::byte* const zero = slice.kv.At(KvSide::kKey, 0, 1);
  std::fill_n(zero, 256, std::byte{0});
  for (int first = 0; first < 256; first += 16) {
    for (int code = 0; code < 256; ++code) {
      one[code] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0 : code);
    }
    std::fill(test.q.begin(), test.q.end(), 0.0f);
    for (int h = 0; h < 16; ++h) test.q[static_cast<std::size_t>(h * 256 + first + h)] = 0.5f;
    AttentionLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
    ExpectClose(launch.Out(), test.Expected());
  }
}

TEST_F(CudaSparseAttention, SelectedNaNsReachTheOutput) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test({12, 2, 64, 8}, dtype, {{70, 3}});
    const QsaSlice slice = test.batch.Slices()[0];
    StoreKvElement(dtype, std::numeric_limits<float>::quiet_NaN(), 1.0f,
                   slice.kv.At(KvSide::kValue, 1, 68), 5);
    StoreKvElement(dtype, std::numeric_limits<float>::quiet_NaN(), 1.0f,
                   slice.kv.At(KvSide::kKey, 0, 69), 3);
    AttentionLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
    const std::vector<float> expected = test.Expected();
    ExpectClose(launch.Out(), expected);
    EXPECT_TRUE(std::isnan(expected[static_cast<std::size_t>(2 * test.width)]));
  }
}

/// Everything that no row selects is NaN in the cases above; here other bytes give the same bits.
TEST_F(CudaSparseAttention, UnselectedBytesDoNotMatter) {
  AttentionCase test({12, 2, 64, 8}, KvDType::kE4M3, {{90, 7}, {300, 2}});
  AttentionLaunch poisoned(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), poisoned.Args()).ok());
  const std::vector<float> expected = poisoned.Out();
  for (std::byte& byte : test.batch.kv_pool) {
    if (byte == PagedBatch::kPoison) byte = std::byte{0x55};
  }
  AttentionLaunch filled(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), filled.Args()).ok());
  const std::vector<float> out = filled.Out();
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

TEST_F(CudaSparseAttention, LargestCodesAndQueriesStayFinite) {
  const AttentionCase test = CaseOfLargest({40, 1});
  AttentionLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  for (const float value : launch.Out()) ASSERT_NEAR(value, kOutputOfLargest, 1e-3f);
}

TEST_F(CudaSparseAttention, SmallestQueriesStayFinite) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test = CaseOfSmallest(dtype);
    AttentionLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
    ExpectClose(launch.Out(), test.Expected());
  }
}

TEST_F(CudaSparseAttention, NoTokenGivesZerosAndPaddingIsLeftAlone) {
  AttentionCase test({6, 1, 64, 16}, KvDType::kE4M3, {{40, 1}, {41, 2}});
  test.counts[0] = 0;  // position 39: no open tail either
  test.batch.row_sequence[1] = -1;
  AttentionLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  const std::vector<float> out = launch.Out();
  for (std::int64_t i = 0; i < test.width; ++i) {
    EXPECT_EQ(out[static_cast<std::size_t>(i)], 0.0f);
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(test.width + i)]));
    EXPECT_TRUE(std::isfinite(out[static_cast<std::size_t>(2 * test.width + i)]));
  }
}

/// Graph replay gives the same bits, so nothing of a call is read by the host; tickets are zero
/// again.
TEST_F(CudaSparseAttention, ReplaysFromAGraph) {
  AttentionCase test({24, 2, 256, 512}, KvDType::kE4M3, {{2500, 3}});
  AttentionLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  const std::vector<float> expected = launch.Out();
  ASSERT_TRUE(stream().BeginCapture().ok());
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  const DeviceGraph graph = stream().EndCapture().value();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream().Fill(launch.Args().out, std::byte{0xFF}, test.width * 4).ok());
    ASSERT_TRUE(stream().Launch(graph).ok());
    const std::vector<float> out = launch.Out();
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
  }
}

TEST_F(CudaSparseAttention, PageIdsPastFourGigabytes) {
  AttentionCase test({12, 2, 64, 8}, KvDType::kE4M3, {{60, 2}});
  AttentionLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().SparseAttention(stream(), launch.Args()).ok());
  const std::vector<float> expected = launch.Out();
  constexpr std::int64_t kFar = 300'000;  // times 16 KiB
  for (PageId& page : test.batch.table) {
    page = static_cast<PageId>(static_cast<std::int64_t>(page) + kFar);
  }
  const OnDevice<PageId> far(device(), stream(), test.batch.table);
  SparseAttentionArgs args = launch.Args();
  args.tables.pages = reinterpret_cast<const std::int32_t*>(far.data());
  args.kv.data -= kFar * test.batch.kv_layout.page_bytes();
  ASSERT_TRUE(ops().SparseAttention(stream(), args).ok());
  const std::vector<float> out = launch.Out();
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

TEST_F(CudaSparseAttention, UnknownDimensionsAreRefusedByName) {
  SparseAttentionArgs args{};
  args.kv.head_dim = 80;
  const Result<void> refused = ops().SparseAttention(stream(), args);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().what, "head_dim is 80, the GPU has 64, 128, 256");
}

}  // namespace
}  // namespace kv8::cuda
