// Sparse attention of prompts on the GPU against its oracle, and what rows of a group may share.
#include "ops/cuda/prompt_attention.h"

#include <limits>

#include "unit/ops/cuda/attention_case.h"

namespace kv8::cuda {
namespace {

using CudaPromptAttention = CudaTest;

/// The groups of a batch: aligned in each sequence, padding by itself.
std::vector<RowGroup> GroupsOf(const PagedBatch& batch) {
  std::vector<RowGroup> groups;
  for (std::size_t row = 0; row < batch.row_position.size(); ++row) {
    const bool starts = row == 0 || batch.row_sequence[row] != batch.row_sequence[row - 1] ||
                        batch.row_position[row] % kPromptGroupRows == 0;
    if (starts) groups.push_back({static_cast<std::int32_t>(row), 0});
    ++groups.back().count;
  }
  return groups;
}

struct PromptLaunch : AttentionLaunch {
  PromptLaunch(Device& device, DeviceStream& stream, const AttentionCase& of)
      : AttentionLaunch(device, stream, of),
        host_groups(GroupsOf(of.batch)),
        groups(device, stream, host_groups) {}

  PromptAttentionArgs Args() const {
    return {.attention = AttentionLaunch::Args(),
            .groups = groups.data(),
            .group_count = static_cast<std::int32_t>(host_groups.size())};
  }

  /// One group, as a pass of its rows alone would have it.
  PromptAttentionArgs GroupArgs(std::size_t i) const {
    const RowGroup& group = host_groups[i];
    PromptAttentionArgs args = Args();
    SparseAttentionArgs& a = args.attention;
    a.rows = {a.rows.sequence + group.begin, a.rows.position + group.begin, group.count};
    a.query += group.begin * test.width, a.gate += group.begin * 2 * test.width;
    a.out += group.begin * test.width;
    a.blocks += std::int64_t{group.begin} * a.budget_selection_blocks, a.counts += group.begin;
    args.first_row = group.begin, args.groups += i, args.group_count = 1;
    return args;
  }

  std::vector<RowGroup> host_groups;
  OnDevice<RowGroup> groups;
};

void ExpectSameRow(const std::vector<float>& a, const std::vector<float>& b, std::int64_t row,
                   std::int64_t width) {
  EXPECT_EQ(std::memcmp(a.data() + row * width, b.data() + row * width,
                        static_cast<std::size_t>(width) * 4),
            0)
      << "row " << row;
}

TEST_F(CudaPromptAttention, MatchesTheOracle) {
  for (const AttentionShape& shape :
       {AttentionShape{12, 2, 64, 64}, AttentionShape{24, 2, 256, 512},
        AttentionShape{16, 1, 128, 70}, AttentionShape{3, 1, 256, 5}}) {
    for (const KvDType dtype : kTypes) {
      for (const int kept : {0, 50, 97}) {
        AttentionCase test(shape, dtype, {{1, 1}, {20, 20}, {300, 5}, {2600, 11}, {64, 1}}, kept);
        PromptLaunch launch(device(), stream(), test);
        ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
        ExpectClose(launch.Out(), test.Expected());
      }
    }
  }
}

TEST_F(CudaPromptAttention, MatchesTheOracleFarOut) {
  // More selection blocks than fit the map of selected ones at once, and more of them selected than
  // a warp reads at once.
  const AttentionShape shape{4, 1, 64, 600};
  constexpr int kTokens = 540'000;
  const int stages = PromptStages(shape.head_dim, KvElement::kE4M3, shape.budget,
                                  device().info().max_shared_bytes);
  ASSERT_GT(kTokens / 4, stages * PromptStageBlocks(shape.head_dim, KvElement::kE4M3) *
                             PromptBlockBytes(shape.head_dim, KvElement::kE4M3));
  AttentionCase test(shape, KvDType::kE4M3, {{kTokens, 9}}, 30);
  PromptLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
  ExpectClose(launch.Out(), test.Expected());
}

TEST_F(CudaPromptAttention, Num32_BitsDependOnTheGroupAlone) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test({24, 2, 256, 512}, dtype, {{2500, 4}, {37, 19}, {2609, 9}}, 60);
    PromptLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
    const std::vector<float> expected = launch.Out();
    for (std::size_t i = 0; i < launch.host_groups.size(); ++i) {
      const PromptAttentionArgs args = launch.GroupArgs(i);
      ASSERT_TRUE(
          stream()
              .Fill(args.attention.out, std::byte{0xFF}, args.attention.rows.count * test.width * 4)
              .ok());
      ASSERT_TRUE(ops().PromptAttention(stream(), args).ok());
    }
    const std::vector<float> alone = launch.Out();
    EXPECT_EQ(std::memcmp(alone.data(), expected.data(), alone.size() * 4), 0);
  }
}

TEST_F(CudaPromptAttention, SelectedNaNsReachTheirRowsOutput) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test({12, 2, 64, 8}, dtype, {{71, 7}, {400, 16}});
    // What only some rows of a group see: the last token, and a block that one row selects.
    const std::vector<QsaSlice> slices = test.batch.Slices();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    StoreKvElement(dtype, nan, 1.0f, slices[0].kv.At(KvSide::kValue, 1, 70), 5);
    StoreKvElement(dtype, nan, 1.0f, slices[0].kv.At(KvSide::kKey, 0, 69), 3);
    const std::int64_t block = test.Selection(9)[3];
    StoreKvElement(dtype, nan, 1.0f, slices[1].kv.At(KvSide::kValue, 0, block * 4 + 1), 2);
    StoreKvElement(dtype, nan, 1.0f, slices[1].kv.At(KvSide::kKey, 1, block * 4 + 2), 1);
    PromptLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
    const std::vector<float> expected = test.Expected();
    ExpectClose(launch.Out(), expected);
    EXPECT_TRUE(std::isnan(expected[static_cast<std::size_t>(9 * test.width + 2)]));
  }
}

/// Everything that no row selects is NaN in the cases above; here other bytes give the same bits.
TEST_F(CudaPromptAttention, UnselectedBytesDoNotMatter) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test({12, 2, 64, 8}, dtype, {{90, 7}, {300, 13}}, 50);
    PromptLaunch poisoned(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), poisoned.Args()).ok());
    const std::vector<float> expected = poisoned.Out();
    std::vector<std::byte>& pool = test.batch.kv_pool;  // a stored byte may be as poison, not two
    for (std::size_t i = 0; i < pool.size(); i += 2) {
      if (pool[i] == PagedBatch::kPoison && pool[i + 1] == PagedBatch::kPoison) {
        pool[i] = pool[i + 1] = std::byte{0x55};
      }
    }
    PromptLaunch filled(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), filled.Args()).ok());
    const std::vector<float> out = filled.Out();
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
  }
}

/// Selection blocks that a row does not select do not reach it through its group: neither what they
/// hold, nor what later rows of the group store.
TEST_F(CudaPromptAttention, ForeignBytesDoNotReachARow) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test({12, 2, 64, 8}, dtype, {{302, 6}}, 50);
    PromptLaunch before(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), before.Args()).ok());
    const std::vector<float> expected = before.Out();
    const QsaSlice slice = test.batch.Slices()[0];
    const auto poison = [&](std::int64_t token) {
      for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
        for (int head = 0; head < 2; ++head) {
          std::fill_n(slice.kv.At(side, head, token), slice.kv.layout.token_bytes(),
                      PagedBatch::kPoison);
        }
      }
    };
    for (std::int64_t token = 297; token < 302; ++token) poison(token);
    const std::int32_t* const first = test.Selection(0);
    for (std::size_t row = 1; row < 6; ++row) {
      for (int i = 0; i < 8; ++i) {
        const std::int32_t block = test.Selection(row)[i];
        if (std::binary_search(first, first + 8, block)) continue;
        for (std::int64_t token = block * 4; token < block * 4 + 4; ++token) {
          if (token != 296) poison(token);  // row 0's own
        }
      }
    }
    PromptLaunch after(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), after.Args()).ok());
    const std::vector<float> out = after.Out();
    ExpectSameRow(out, expected, 0, test.width);
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(5 * test.width)]));
  }
}

TEST_F(CudaPromptAttention, LargestCodesAndQueriesStayFinite) {
  const AttentionCase test = CaseOfLargest({42, 3});
  PromptLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
  for (const float value : launch.Out()) ASSERT_NEAR(value, kOutputOfLargest, 1e-3f);
}

TEST_F(CudaPromptAttention, SmallestQueriesStayFinite) {
  for (const KvDType dtype : kTypes) {
    AttentionCase test = CaseOfSmallest(dtype);
    PromptLaunch launch(device(), stream(), test);
    ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
    ExpectClose(launch.Out(), test.Expected());
  }
}

TEST_F(CudaPromptAttention, NoTokenGivesZerosAndPaddingIsLeftAlone) {
  AttentionCase test({6, 1, 64, 16}, KvDType::kE4M3, {{40, 2}, {41, 1}});
  test.counts[1] = 0;  // position 39: no open tail either
  test.batch.row_sequence[2] = -1;
  PromptLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
  const std::vector<float> out = launch.Out();
  for (std::int64_t i = 0; i < test.width; ++i) {
    EXPECT_TRUE(std::isfinite(out[static_cast<std::size_t>(i)]));
    EXPECT_EQ(out[static_cast<std::size_t>(test.width + i)], 0.0f);
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(2 * test.width + i)]));
  }
}

TEST_F(CudaPromptAttention, PageIdsPastFourGigabytes) {
  AttentionCase test({12, 2, 64, 8}, KvDType::kE4M3, {{60, 4}});
  PromptLaunch launch(device(), stream(), test);
  ASSERT_TRUE(ops().PromptAttention(stream(), launch.Args()).ok());
  const std::vector<float> expected = launch.Out();
  constexpr std::int64_t kFar = 300'000;  // times 16 KiB
  for (PageId& page : test.batch.table) {
    page = static_cast<PageId>(static_cast<std::int64_t>(page) + kFar);
  }
  const OnDevice<PageId> far(device(), stream(), test.batch.table);
  PromptAttentionArgs args = launch.Args();
  args.attention.tables.pages = reinterpret_cast<const std::int32_t*>(far.data());
  args.attention.kv.data -= kFar * test.batch.kv_layout.page_bytes();
  ASSERT_TRUE(ops().PromptAttention(stream(), args).ok());
  const std::vector<float> out = launch.Out();
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

TEST_F(CudaPromptAttention, UnknownDimensionsAreRefusedByName) {
  PromptAttentionArgs args{};
  args.attention.kv.head_dim = 80;
  const Result<void> refused = ops().PromptAttention(stream(), args);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().what, "head_dim is 80, the GPU has 64, 128, 256");
}

}  // namespace
}  // namespace kv8::cuda
