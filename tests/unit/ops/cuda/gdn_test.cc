// Gated DeltaNet on the GPU against the oracle's recurrence and chunks.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/owned_weights.h"
#include "unit/ops/random_values.h"

namespace kv8::cuda {
namespace {

using CudaGdn = CudaTest;

struct Case {
  Case(int key_heads, int value_heads, int dim, std::vector<std::int32_t> rows_of)
      : config{key_heads, value_heads, dim, dim, 4}, counts(std::move(rows_of)) {
    for (const std::int32_t count : counts) begins.push_back(rows), rows += count;
    const std::int64_t channels = config.conv_channels(), slots = Slots();
    weights.conv = RandomValues(channels * 4, 1, 0.5f);
    weights.norm = RandomValues(dim, 2);
    weights.dt_bias = RandomValues(value_heads, 3);
    weights.decay = RandomValues(value_heads, 4);
    for (float& d : weights.decay) d = -std::exp(d);
    qkv = RandomValues(rows * channels, 5);
    z = RandomValues(rows * value_heads * dim, 6);
    b = RandomValues(rows * value_heads, 7);
    a = RandomValues(rows * value_heads, 8, 2.0f);
    conv_state = RandomValues(slots * 3 * channels, 9);
    state = RandomValues(slots * value_heads * dim * dim, 10, 0.3f);
  }
  /// Slices use every other slot, backwards.
  std::int64_t Slots() const { return 2 * static_cast<std::int64_t>(counts.size()) + 1; }
  std::int32_t Slot(std::size_t i) const {
    return static_cast<std::int32_t>(2 * (counts.size() - i) - 1);
  }

  struct Outputs {
    std::vector<float> out, conv_state, state;
  };

  Outputs Expected(GdnFn& form) const {
    Outputs o{std::vector<float>(z.size(), NAN), conv_state, state};
    std::vector<GdnSlice> slices;
    const std::size_t conv = o.conv_state.size() / static_cast<std::size_t>(Slots());
    const std::size_t whole = o.state.size() / static_cast<std::size_t>(Slots());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto slot = static_cast<std::size_t>(Slot(i));
      slices.push_back({begins[i], counts[i],
                        std::span<float>(o.conv_state).subspan(slot * conv, conv),
                        std::span<float>(o.state).subspan(slot * whole, whole)});
    }
    const std::int64_t heads = config.value_heads, width = heads * config.value_dim;
    const GdnInputs in{ConstMatrix(qkv.data(), rows, config.conv_channels()),
                       ConstMatrix(z.data(), rows, width), ConstMatrix(b.data(), rows, heads),
                       ConstMatrix(a.data(), rows, heads)};
    ThreadPool pool(1);
    form({pool}, config, weights, in, slices, 1e-6f, Matrix(o.out.data(), rows, width));
    return o;
  }

  GdnConfig config;
  OwnedGdnWeights weights;
  std::vector<std::int32_t> counts;
  std::vector<std::int64_t> begins;
  std::int64_t rows = 0;
  std::vector<float> qkv, z, b, a, conv_state, state;
};

/// A case's arrays on the device; outputs start as NaN.
struct Operands {
  Operands(Device& device, DeviceStream& stream, const Case& of)
      : test(of),
        qkv(device, stream, of.qkv),
        z(device, stream, of.z),
        b(device, stream, of.b),
        a(device, stream, of.a),
        conv(device, stream, of.weights.conv),
        decay(device, stream, of.weights.decay),
        dt_bias(device, stream, of.weights.dt_bias),
        norm(device, stream, of.weights.norm),
        conv_state(device, stream, of.conv_state),
        state(device, stream, of.state),
        convolved(device, stream, std::vector<float>(of.qkv.size(), NAN)),
        chunks(device, stream,
               std::vector<float>(static_cast<std::size_t>(GdnChunkFloats(
                                      of.rows, static_cast<std::int64_t>(of.counts.size()),
                                      of.config.value_heads)),
                                  NAN)),
        out(device, stream, std::vector<float>(of.z.size(), NAN)) {}

  GdnArgs Args(const SlicesView& slices, std::int32_t max_rows) const {
    return {.slices = slices,
            .max_rows = max_rows,
            .key_heads = test.config.key_heads,
            .value_heads = test.config.value_heads,
            .key_dim = test.config.key_dim,
            .value_dim = test.config.value_dim,
            .eps = 1e-6f,
            .qkv = qkv.data(),
            .z = z.data(),
            .b = b.data(),
            .a = a.data(),
            .conv = conv.data(),
            .decay = decay.data(),
            .dt_bias = dt_bias.data(),
            .norm = norm.data(),
            .conv_state = conv_state.data(),
            .state = state.data(),
            .convolved = convolved.data(),
            .chunks = chunks.data(),
            .out = out.data()};
  }

  const Case& test;
  OnDevice<float> qkv, z, b, a, conv, decay, dt_bias, norm, conv_state, state, convolved, chunks,
      out;
};

using Form = Result<void> (CudaOps::*)(DeviceStream&, const GdnArgs&) const;

/// Runs the case, at most `most` rows of each slice at a time.
Case::Outputs RunGdn(Device& device, DeviceStream& stream, const CudaOps& ops, const Case& test,
                     std::int32_t most, Form form = &CudaOps::Gdn) {
  const Operands operands(device, stream, test);
  const std::int32_t longest = *std::max_element(test.counts.begin(), test.counts.end());
  for (std::int32_t done = 0; done < longest; done += most) {
    std::vector<std::int32_t> slots, begins, counts;
    for (std::size_t i = 0; i < test.counts.size(); ++i) {
      slots.push_back(test.Slot(i));
      begins.push_back(static_cast<std::int32_t>(test.begins[i]) + done);
      counts.push_back(std::clamp(test.counts[i] - done, 0, most));
    }
    const OnDevice<std::int32_t> slot(device, stream, slots), begin(device, stream, begins),
        count(device, stream, counts);
    const SlicesView slices{slot.data(), begin.data(), count.data(),
                            static_cast<std::int32_t>(slots.size())};
    const Result<void> launched =
        (ops.*form)(stream, operands.Args(slices, *std::max_element(counts.begin(), counts.end())));
    EXPECT_TRUE(launched.ok()) << launched.error().ToString();
    EXPECT_TRUE(stream.Synchronize().ok());
  }
  return {operands.out.Read(), operands.conv_state.Read(), operands.state.Read()};
}

void ExpectClose(const Case::Outputs& actual, const Case::Outputs& expected) {
  const auto compare = [](const std::vector<float>& x, const std::vector<float>& y) {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::isnan(x[i]), std::isnan(y[i])) << i;
      if (std::isnan(y[i])) continue;
      ASSERT_NEAR(x[i], y[i], tolerance::kGdn * std::max(1.0f, std::fabs(y[i]))) << i;
    }
  };
  compare(actual.out, expected.out);
  compare(actual.state, expected.state);
  EXPECT_EQ(actual.conv_state, expected.conv_state);
}

TEST_F(CudaGdn, MatchesTheOracle) {
  for (const auto& [keys, values, dim] :
       {std::tuple{4, 8, 32}, std::tuple{2, 6, 128}, std::tuple{1, 1, 32}, std::tuple{3, 3, 128}}) {
    const Case test(keys, values, dim, {1, 1, 5, 2, 67, 64, 1});
    const Case::Outputs actual = RunGdn(device(), stream(), ops(), test, 1000);
    ExpectClose(actual, test.Expected(reference::GdnDecode));
    ExpectClose(actual, test.Expected(reference::GdnPrefill));
  }
}

TEST_F(CudaGdn, AnyCutOfASequenceGivesTheSameBits) {
  const Case test(2, 6, 128, {130, 3, 65, 1});
  const Case::Outputs whole = RunGdn(device(), stream(), ops(), test, 1000);
  for (const std::int32_t most : {1, 64}) {
    const Case::Outputs cut = RunGdn(device(), stream(), ops(), test, most);
    EXPECT_EQ(std::memcmp(cut.out.data(), whole.out.data(), whole.out.size() * 4), 0) << most;
    EXPECT_EQ(cut.state, whole.state);
    EXPECT_EQ(cut.conv_state, whole.conv_state);
  }
}

TEST_F(CudaGdn, ChunksMatchTheOracle) {
  for (const auto& [keys, values, dim] :
       {std::tuple{4, 8, 32}, std::tuple{2, 6, 128}, std::tuple{1, 1, 128}}) {
    const Case test(keys, values, dim, {1, 63, 64, 65, 2, 200, 128});
    const Case::Outputs actual =
        RunGdn(device(), stream(), ops(), test, 1000, &CudaOps::GdnPrefill);
    ExpectClose(actual, test.Expected(reference::GdnPrefill));
    ExpectClose(actual, test.Expected(reference::GdnDecode));
  }
}

/// Calls that end between chunks carry the state exactly; neighbours do not matter.
TEST_F(CudaGdn, ChunksGiveTheSameBitsInAnyAllowedCut) {
  const Case test(2, 6, 128, {260, 3, 65, 128});
  const Case::Outputs whole = RunGdn(device(), stream(), ops(), test, 1000, &CudaOps::GdnPrefill);
  for (const std::int32_t most : {64, 128}) {
    const Case::Outputs cut = RunGdn(device(), stream(), ops(), test, most, &CudaOps::GdnPrefill);
    EXPECT_EQ(std::memcmp(cut.out.data(), whole.out.data(), whole.out.size() * 4), 0) << most;
    EXPECT_EQ(cut.state, whole.state);
    EXPECT_EQ(cut.conv_state, whole.conv_state);
  }
}

/// Zeros of a chunk's triangular matrices meet later rows: their NaNs must not reach earlier ones.
TEST_F(CudaGdn, ChunksKeepNaNsFromEarlierRows) {
  for (const int operand : {0, 1, 2}) {
    Case test(1, 2, 32, {100, 70});
    const std::size_t row = 37, width = operand == 0 ? test.qkv.size() / 170 : 2;
    std::vector<float>& values = operand == 0 ? test.qkv : operand == 1 ? test.b : test.a;
    values[row * width + (operand == 0 ? width - 5 : 1)] = NAN;
    const Case::Outputs expected = test.Expected(reference::GdnDecode);
    const Case::Outputs actual =
        RunGdn(device(), stream(), ops(), test, 1000, &CudaOps::GdnPrefill);
    ASSERT_TRUE(std::isfinite(expected.out[36 * 64 + 63]));
    ASSERT_TRUE(std::isnan(expected.out[37 * 64 + 63]));
    for (std::size_t i = 0; i < expected.out.size(); ++i) {
      ASSERT_EQ(std::isnan(actual.out[i]), std::isnan(expected.out[i])) << operand << " " << i;
    }
    for (std::size_t i = 0; i < expected.state.size(); ++i) {
      ASSERT_EQ(std::isnan(actual.state[i]), std::isnan(expected.state[i])) << operand << " " << i;
    }
  }
}

/// A zero key and query, and gates so extreme that softplus or a decay could overflow (NUM-21, 22).
TEST_F(CudaGdn, ExtremesStayFinite) {
  Case test(4, 8, 32, {3, 2});
  std::fill(test.qkv.begin(), test.qkv.end(), 0.0f);
  std::fill(test.conv_state.begin(), test.conv_state.end(), 0.0f);
  for (std::size_t i = 0; i < test.a.size(); ++i) test.a[i] = i % 2 == 0 ? 200.0f : -200.0f;
  for (std::size_t i = 0; i < test.b.size(); ++i) test.b[i] = i % 3 == 0 ? 200.0f : -200.0f;
  for (const Form form : {&CudaOps::Gdn, &CudaOps::GdnPrefill}) {
    const Case::Outputs actual = RunGdn(device(), stream(), ops(), test, 1000, form);
    for (const float value : actual.out) ASSERT_TRUE(std::isfinite(value));
    ExpectClose(actual, test.Expected(reference::GdnDecode));
  }
}

/// Log decays whose sum over a chunk leaves FP32 no digits for their differences.
TEST_F(CudaGdn, ChunksForgetAndRemember) {
  Case test(1, 2, 32, {130});
  for (std::size_t i = 0; i < test.a.size(); ++i) test.a[i] = i % 14 < 2 ? 500.0f : -6.0f;
  ExpectClose(RunGdn(device(), stream(), ops(), test, 1000, &CudaOps::GdnPrefill),
              test.Expected(reference::GdnDecode));
}

/// The unnormalised read passes FP16's range (NUM-23).
TEST_F(CudaGdn, LargeStatesKeepTheirDirection) {
  Case test(1, 1, 128, {2});
  for (float& s : test.state) s *= 1e6f;
  const Case::Outputs expected = test.Expected(reference::GdnDecode);
  for (const Form form : {&CudaOps::Gdn, &CudaOps::GdnPrefill}) {
    const Case::Outputs actual = RunGdn(device(), stream(), ops(), test, 1000, form);
    for (std::size_t i = 0; i < actual.out.size(); ++i) {
      ASSERT_NEAR(actual.out[i], expected.out[i], 1e-3f) << i;
    }
  }
}

TEST_F(CudaGdn, PaddingSlicesAndOtherSlotsAreLeftAlone) {
  const Case test(1, 2, 32, {1});
  const Case::Outputs actual = RunGdn(device(), stream(), ops(), test, 1000);
  const std::size_t slot = test.state.size() / 3;
  EXPECT_EQ(std::memcmp(actual.state.data(), test.state.data(), slot * 4), 0);
  EXPECT_NE(std::memcmp(actual.state.data() + slot, test.state.data() + slot, slot * 4), 0);
  EXPECT_EQ(std::memcmp(actual.state.data() + 2 * slot, test.state.data() + 2 * slot, slot * 4), 0);
}

}  // namespace
}  // namespace kv8::cuda
