// Products, embedding, norms and hyper-connections on the GPU against their oracles.
#include <cmath>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/device_weight.h"

namespace kv8::cuda {
namespace {

using CudaDense = CudaTest;

OpContext Context() {
  static ThreadPool pool(1);
  return {pool};
}

TEST_F(CudaDense, LinearMatchesTheOracle) {
  for (const DType dtype : kDeviceWeightTypes) {
    for (const std::int64_t inner : {32, 192, 2560}) {
      const DeviceWeight wide(device(), stream(), dtype, 100, inner, 1);
      const DeviceWeight narrow(device(), stream(), dtype, 1, inner, 2);
      const DeviceWeight exact(device(), stream(), dtype, 64, inner, 3);
      for (const std::int64_t rows : {1, 8, 9, 70}) {
        const std::vector<float> x = RandomValues(rows * inner, 4);
        const OnDevice<float> in = Upload(x);
        const std::vector<std::pair<const DeviceWeight*, std::int64_t>> parts = {
            {&wide, 100}, {&narrow, 3}, {&exact, 64}};  // with the rows' stride
        std::vector<OnDevice<float>> outs;
        LinearArgs args{.x = in.data(),
                        .x_stride = inner,
                        .rows = static_cast<std::int32_t>(rows),
                        .inner = static_cast<std::int32_t>(inner),
                        .count = 3};
        for (std::size_t i = 0; i < parts.size(); ++i) {
          outs.push_back(Filled<float>(rows * parts[i].second, 0xFF));
          args.outputs[i] = {parts[i].first->array(), outs.back().data(), parts[i].second};
        }
        ASSERT_TRUE(ops().Linear(stream(), args).ok());
        for (std::size_t i = 0; i < parts.size(); ++i) {
          const WeightView weight = parts[i].first->view();
          const std::vector<float> all = outs[i].Read();
          std::vector<float> expected(static_cast<std::size_t>(rows * weight.rows)), actual;
          const LinearPart part{weight, Matrix(expected.data(), rows, weight.rows)};
          reference::Linear(Context(), ConstMatrix(x.data(), rows, inner), {&part, 1});
          for (std::int64_t t = 0; t < rows; ++t) {
            const auto begin = all.begin() + t * parts[i].second;
            actual.insert(actual.end(), begin, begin + weight.rows);
          }
          ExpectClose(actual, expected, tolerance::kLinear);
        }
      }
    }
  }
}

TEST_F(CudaDense, LinearBitsDependOnTheRowAlone) {
  constexpr std::int64_t kInner = 320, kRows = 40, kOut = 48;
  const DeviceWeight weight(device(), stream(), DType::kBF16, kOut, kInner, 1);
  const OnDevice<float> x = Upload(RandomValues(kRows * kInner, 2));
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    const OnDevice<float> out = Filled<float>(rows * kOut, 0xFF);
    EXPECT_TRUE(ops()
                    .Linear(stream(), {.x = x.data() + first * kInner,
                                       .x_stride = kInner,
                                       .rows = static_cast<std::int32_t>(rows),
                                       .inner = kInner,
                                       .count = 1,
                                       .outputs = {{weight.array(), out.data(), kOut}}})
                    .ok());
    return out.Read();
  };
  const std::vector<float> all = run(0, kRows);
  for (const std::int64_t row : {0, 7, 8, 39}) {
    ExpectSameBits(run(row, 1), std::span(all).subspan(static_cast<std::size_t>(row * kOut), kOut));
  }
}

TEST_F(CudaDense, LinearRefusesWhatItHasNoKernelFor) {
  const DeviceWeight weight(device(), stream(), DType::kBF16, 4, 48, 1);
  const Result<void> refused = ops().Linear(
      stream(), {.rows = 1, .inner = 48, .count = 1, .outputs = {{weight.array(), nullptr, 4}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().what, "the inner dimension is 48, the GPU has multiples of 32");
}

TEST_F(CudaDense, EmbedCopiesRowsToEveryStream) {
  for (const DType dtype : kDeviceWeightTypes) {
    constexpr std::int64_t kHidden = 200, kStreams = 4;
    const DeviceWeight table(device(), stream(), dtype, 50, kHidden, 1);
    const std::vector<TokenId> ids = {49, 0, 7, 7};
    const OnDevice<TokenId> device_ids = Upload(ids);
    const OnDevice<float> out = Filled<float>(4 * kStreams * kHidden, 0xFF);
    ASSERT_TRUE(ops()
                    .Embed(stream(), {.ids = device_ids.data(),
                                      .table = table.array(),
                                      .rows = 4,
                                      .hidden = kHidden,
                                      .streams = kStreams,
                                      .out = out.data()})
                    .ok());
    std::vector<float> expected(4 * kStreams * kHidden);
    reference::Embed(Context(), ids, table.view(), kStreams,
                     Matrix(expected.data(), 4, kStreams * kHidden));
    ExpectSameBits(out.Read(), expected);
  }
}

TEST_F(CudaDense, GroupedNormMatchesTheOracle) {
  for (const auto& [groups, dim] : {std::pair{4, 2560}, std::pair{1, 7}, std::pair{3, 256}}) {
    const std::int64_t width = std::int64_t{groups} * dim;
    std::vector<float> x = RandomValues(5 * width, 1, 3.0f);
    std::fill_n(x.begin(), width, 0.0f);           // a zero row
    x[static_cast<std::size_t>(2 * width)] = NAN;  // reaches its group alone
    x[static_cast<std::size_t>(3 * width)] = 1e18f;
    const std::vector<float> gain = RandomValues(width, 2);
    const OnDevice<float> values = Upload(x), device_gain = Upload(gain);
    ASSERT_TRUE(ops()
                    .GroupedNorm(stream(), {.x = values.data(),
                                            .gain = device_gain.data(),
                                            .out = values.data(),
                                            .rows = 5,
                                            .groups = groups,
                                            .dim = dim,
                                            .eps = 1e-6f})
                    .ok());
    std::vector<float> expected(x.size());
    reference::GroupedRmsNorm(Context(), ConstMatrix(x.data(), 5, width), gain, groups, 1e-6f,
                              Matrix(expected.data(), 5, width));
    ExpectClose(values.Read(), expected, tolerance::kDeviceNorm);
  }
}

/// Hyper-connection of S streams of H values, with `inject` or as the final mixer.
struct Mixer {
  Mixer(Device& device, DeviceStream& stream, DType dtype, std::int64_t streams,
        std::int64_t hidden, std::int64_t low)
      : down(device, stream, dtype, low, streams * hidden, 1),
        up(device, stream, dtype, streams * hidden, low, 2),
        inject(device, stream, dtype, streams, streams * hidden, 3),
        gain(RandomValues(streams * hidden, 4)) {}
  DeviceWeight down, up, inject;
  std::vector<float> gain;
};

constexpr std::int64_t kStreams = 4, kHidden = 192, kLow = 64, kWidth = kStreams * kHidden;

/// x and inject of one batch; inject starts as zeros.
struct Mixed {
  std::vector<float> x, inject;
};

Mixed ExpectedMix(const Mixer& mixer, const std::vector<float>& streams, bool with_inject) {
  const std::int64_t rows = static_cast<std::int64_t>(streams.size()) / kWidth;
  Mixed mixed{std::vector<float>(static_cast<std::size_t>(rows * kHidden)),
              std::vector<float>(static_cast<std::size_t>(rows * kStreams))};
  const HyperConnectionWeights weights{mixer.gain, mixer.down.view(), mixer.up.view(),
                                       with_inject ? mixer.inject.view() : WeightView{}};
  reference::HyperMix(Context(), ConstMatrix(streams.data(), rows, kWidth), weights, kStreams,
                      1e-6f, Matrix(mixed.x.data(), rows, kHidden),
                      Matrix(mixed.inject.data(), rows, kStreams));
  return mixed;
}

TEST_F(CudaDense, HyperMixMatchesTheOracle) {
  for (const std::int64_t rows : {1, 3, 33}) {
    for (const bool with_inject : {true, false}) {
      const Mixer mixer(device(), stream(), DType::kBF16, kStreams, kHidden, kLow);
      const std::vector<float> streams = RandomValues(rows * kWidth, 5, 2.0f);
      const OnDevice<float> in = Upload(streams), gain = Upload(mixer.gain),
                            normed = Filled<float>(rows * kWidth, 0xFF),
                            low = Filled<float>(rows * kLow, 0xFF),
                            gates = Filled<float>(rows * kWidth, 0xFF),
                            x = Filled<float>(rows * kHidden, 0xFF),
                            inject = Filled<float>(rows * kStreams, 0);
      const HyperMixArgs args{.streams = in.data(),
                              .gain = gain.data(),
                              .down = mixer.down.array(),
                              .up = mixer.up.array(),
                              .inject_weight = with_inject ? mixer.inject.array() : WeightArray{},
                              .rows = static_cast<std::int32_t>(rows),
                              .stream_count = kStreams,
                              .hidden = kHidden,
                              .eps = 1e-6f,
                              .normed = normed.data(),
                              .low = low.data(),
                              .gates = gates.data(),
                              .x = x.data(),
                              .inject = inject.data()};
      ASSERT_TRUE(ops().HyperMix(stream(), args).ok());
      const Mixed expected = ExpectedMix(mixer, streams, with_inject);
      ExpectClose(x.Read(), expected.x, tolerance::kHyperMix);
      ExpectClose(inject.Read(), expected.inject, tolerance::kHyperMix);
    }
  }
}

TEST_F(CudaDense, HyperCombineMatchesTheOracle) {
  constexpr std::int64_t kRows = 7;
  const std::vector<float> y = RandomValues(kRows * kHidden, 1),
                           inject = RandomValues(kRows * kStreams, 2),
                           streams = RandomValues(kRows * kWidth, 3);
  const OnDevice<float> device_y = Upload(y), device_inject = Upload(inject),
                        device_streams = Upload(streams);
  ASSERT_TRUE(ops()
                  .HyperCombine(stream(), {.y = device_y.data(),
                                           .inject = device_inject.data(),
                                           .streams = device_streams.data(),
                                           .rows = kRows,
                                           .stream_count = kStreams,
                                           .hidden = kHidden})
                  .ok());
  std::vector<float> expected = streams;
  reference::HyperCombine(Context(), ConstMatrix(y.data(), kRows, kHidden),
                          ConstMatrix(inject.data(), kRows, kStreams),
                          Matrix(expected.data(), kRows, kWidth));
  ExpectClose(device_streams.Read(), expected, tolerance::kRounding);
}

}  // namespace
}  // namespace kv8::cuda
