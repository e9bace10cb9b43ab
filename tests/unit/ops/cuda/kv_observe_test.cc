#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "numeric/log_histogram.h"
#include "ops/cpu/reference.h"
#include "ops/cuda/cuda_ops.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/random_values.h"

namespace kv8::cuda {
namespace {

class CudaKvObserve : public CudaTest {};

std::vector<MagnitudeCell> Cells() {
  std::vector<MagnitudeCell> cells;
  for (const Log2Bins::Cell& cell : Log2Bins::Get().cells()) {
    cells.push_back({cell.bin, cell.next_edge});
  }
  return cells;
}

TEST_F(CudaKvObserve, EqualsTheOracle) {
  const OnDevice<MagnitudeCell> cells(device(), stream(), Cells());
  for (const int heads : {1, 2, 5}) {
    for (const std::int64_t dim : {16, 64, 256}) {
      for (const std::int64_t rows : {1, 64, 65, 300}) {
        std::vector<float> k = RandomValues(rows * heads * dim, 1, 30.0f);
        std::vector<float> v = RandomValues(rows * heads * dim, 2, 1e-3f);
        const float extremes[] = {0.0f, -0.0f, 1e-40f, 3e38f, -3e38f, INFINITY, NAN, 0x1p-24f};
        std::copy(std::begin(extremes), std::end(extremes), k.begin());
        std::vector<std::int32_t> sequence(static_cast<std::size_t>(rows), 0);
        const std::vector<std::int64_t> position(static_cast<std::size_t>(rows), 0);
        const std::int64_t padding = rows > 1 ? 1 : 0;  // the last row
        if (padding > 0) sequence.back() = -1;

        std::vector<HeadMagnitudes> expected(static_cast<std::size_t>(2 * heads));
        ThreadPool pool(1);
        const std::int64_t cols = heads * dim;
        for (int call = 0; call < 2; ++call) {  // it adds
          reference::KvObserve({pool}, heads, ConstMatrix(k.data(), rows - padding, cols),
                               ConstMatrix(v.data(), rows - padding, cols), expected);
        }
        const OnDevice<float> key(device(), stream(), k), value(device(), stream(), v);
        const OnDevice<std::int32_t> of(device(), stream(), sequence);
        const OnDevice<std::int64_t> at(device(), stream(), position);
        const OnDevice<HeadMagnitudes> out(
            device(), stream(), std::vector<HeadMagnitudes>(static_cast<std::size_t>(2 * heads)));
        const KvObserveArgs args{.rows = {of.data(), at.data(), static_cast<std::int32_t>(rows)},
                                 .key = key.data(),
                                 .value = value.data(),
                                 .heads = heads,
                                 .dim = static_cast<std::int32_t>(dim),
                                 .cells = cells.data(),
                                 .out = out.data()};
        for (int call = 0; call < 2; ++call) ASSERT_TRUE(ops().KvObserve(stream(), args).ok());
        const std::vector<HeadMagnitudes> actual = out.Read();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(HeadMagnitudes)), 0)
              << heads << " heads of " << dim << ", " << rows << " rows, head " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kv8::cuda
