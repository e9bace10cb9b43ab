// Copies of items between arrays: exactly the items asked for, whatever their size and alignment.
#include <numeric>

#include "unit/ops/cuda/device_fixture.h"

namespace kv8::cuda {
namespace {

using CudaSlots = CudaTest;

constexpr std::int64_t kItems = 70;

/// Two arrays with items of different size, one not of whole vectors; the target's items stand
/// further apart.
struct Case {
  std::int64_t bytes, from_stride, to_stride;
};
constexpr Case kCases[] = {{40000, 40000, 40960}, {12, 12, 20}};

std::vector<unsigned char> Pattern(std::int64_t count) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(i * 131 + i / 251);
  }
  return bytes;
}

TEST_F(CudaSlots, CopyMatchesTheHosts) {
  for (const bool listed : {false, true}) {
    std::vector<CopyPair> pairs;
    for (int i = 0; i < kMaxCopyPairs; ++i)
      pairs.push_back({(7 * i) % 70, i % 9 == 4 ? -1 : 69 - i});
    std::vector<OnDevice<unsigned char>> from, to;
    std::vector<std::vector<unsigned char>> expected;
    std::vector<CopyArray> arrays;
    for (const Case& c : kCases) {
      const auto source = Pattern(kItems * c.from_stride);
      from.push_back(Upload(source));
      to.push_back(Filled<unsigned char>(kItems * c.to_stride, 0xEE));
      arrays.push_back({from.back().data(), to.back().data(), c.from_stride, c.to_stride, c.bytes});
      auto& target = expected.emplace_back(static_cast<std::size_t>(kItems * c.to_stride), 0xEE);
      for (const CopyPair& pair : pairs) {
        if (pair.to < 0) continue;
        std::copy_n(source.begin() + pair.from * c.from_stride, c.bytes,
                    target.begin() + pair.to * c.to_stride);
      }
    }
    const auto arrays_there = Upload(arrays);
    const auto pairs_there = Upload(pairs);
    CopyItemsArgs args{.arrays = arrays_there.data(),
                       .array_count = static_cast<std::int32_t>(arrays.size()),
                       .pair_count = static_cast<std::int32_t>(pairs.size()),
                       .largest = kCases[0].bytes,
                       .pairs = listed ? pairs_there.data() : nullptr};
    if (!listed) std::copy(pairs.begin(), pairs.end(), args.own_pairs);
    ASSERT_TRUE(ops().CopyItems(stream(), args).ok());
    for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i].Read(), expected[i]);
  }
}

}  // namespace
}  // namespace kv8::cuda
