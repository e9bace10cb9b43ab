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

std::vector<MagnitudeCell> Cells() {
  std::vector<MagnitudeCell> cells;
  for (const Log2Bins::Cell& cell : Log2Bins::Get().cells()) {
    cells.push_back({cell.bin, cell.next_edge});
  }
  return cells;
}

/// Rows with extremes among their keys, of three sequences where there are enough; the last row is
/// padding where there are several.
struct Case {
  Case(int head_count, std::int64_t head_dim, std::int64_t row_count)
      : heads(head_count),
        dim(head_dim),
        rows(row_count),
        padding(rows > 1 ? 1 : 0),
        k(RandomValues(rows * heads * dim, 1, 30.0f)),
        v(RandomValues(rows * heads * dim, 2, 1e-3f)) {
    const float extremes[] = {0.0f, -0.0f, 1e-40f, 3e38f, -3e38f, INFINITY, NAN, 0x1p-24f};
    std::copy(std::begin(extremes), std::end(extremes), k.begin());
  }

  /// Rows up to that of the second sequence, to that of the first, and to the end.
  std::int32_t SequenceOf(std::int64_t row) const {
    return row < rows / 5 ? 1 : row < rows / 2 ? 0 : 2;
  }

  void AddExpected(std::vector<HeadMagnitudes>& to, std::vector<std::uint32_t>& max_bits) const {
    ThreadPool pool(1);
    const std::int64_t cols = heads * dim;
    for (std::int64_t row = 0; row < rows - padding; ++row) {
      reference::KvObserve(
          {pool}, heads, ConstMatrix(k.data() + row * cols, 1, cols),
          ConstMatrix(v.data() + row * cols, 1, cols), to,
          std::span(max_bits).subspan(static_cast<std::size_t>(SequenceOf(row) * kMaxStride)));
    }
  }

  static constexpr std::int64_t kMaxStride = 12;  // room for more layers
  static constexpr std::size_t kSequences = 3;

  int heads;
  std::int64_t dim, rows, padding;
  std::vector<float> k, v;
};

class CudaKvObserve : public CudaTest {
 protected:
  /// What two calls count: they add.
  std::vector<HeadMagnitudes> Observe(const Case& test, std::vector<std::uint32_t>& max_bits) {
    const auto rows = static_cast<std::size_t>(test.rows);
    std::vector<std::int32_t> sequence(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      sequence[i] = test.SequenceOf(static_cast<std::int64_t>(i));
    }
    if (test.padding > 0) sequence.back() = -1;
    const auto cells = Upload(Cells());
    const auto key = Upload(test.k), value = Upload(test.v);
    const auto of = Upload(sequence);
    const auto at = Upload(std::vector<std::int64_t>(rows, 0));
    const auto out = Upload(std::vector<HeadMagnitudes>(static_cast<std::size_t>(2 * test.heads)));
    const auto maxima = Upload(max_bits);
    const KvObserveArgs args{.rows = {of.data(), at.data(), static_cast<std::int32_t>(rows)},
                             .key = key.data(),
                             .value = value.data(),
                             .heads = test.heads,
                             .dim = static_cast<std::int32_t>(test.dim),
                             .cells = cells.data(),
                             .out = out.data(),
                             .max_bits = maxima.data(),
                             .max_stride = Case::kMaxStride};
    for (int call = 0; call < 2; ++call) EXPECT_TRUE(ops().KvObserve(stream(), args).ok());
    max_bits = maxima.Read();
    return out.Read();
  }
};

TEST_F(CudaKvObserve, MatchesTheOracle) {
  for (const int heads : {1, 2, 5}) {
    for (const std::int64_t dim : {16, 64, 256}) {
      for (const std::int64_t rows : {1, 64, 65, 300}) {
        const Case test(heads, dim, rows);
        std::vector<HeadMagnitudes> expected(static_cast<std::size_t>(2 * heads));
        std::vector<std::uint32_t> maxima(Case::kSequences * Case::kMaxStride);
        std::vector<std::uint32_t> actual_maxima = maxima;
        for (int call = 0; call < 2; ++call) test.AddExpected(expected, maxima);
        const std::vector<HeadMagnitudes> actual = Observe(test, actual_maxima);
        ASSERT_EQ(actual_maxima, maxima) << heads << " heads of " << dim << ", " << rows << " rows";
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
