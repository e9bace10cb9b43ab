// Products, embedding, norms and hyper-connections on the GPU against their oracles.
#include <cmath>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/device_weight.h"
#include "unit/ops/owned_weights.h"

namespace kv8::cuda {
namespace {

using CudaDense = CudaTest;

OpContext Context() {
  static ThreadPool pool(1);
  return {pool};
}

/// Rows for which products have forms of their own, and between them.
constexpr std::int64_t kRowCounts[] = {1, 8, 9, 17, 33, 70, 129, 200, 270};

struct LinearShape {
  WeightFormat format;
  std::int64_t inner, rows;
  int activation_parts;
};
std::vector<LinearShape> LinearShapes() {
  std::vector<LinearShape> shapes;
  for (const WeightFormat format : kDeviceWeightFormats) {
    for (const std::int64_t inner : {32, 192, 2560}) {
      for (const std::int64_t rows : kRowCounts) {
        for (const int parts : {1, 2}) shapes.push_back({format, inner, rows, parts});
      }
    }
  }
  return shapes;
}

/// `actual` has rows of `stride` values, of which the first are the product's.
void ExpectProduct(const std::vector<float>& actual, std::int64_t stride,
                   const std::vector<float>& x, const Weight& weight) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / weight.cols;
  std::vector<float> expected(static_cast<std::size_t>(rows * weight.rows)), there;
  const LinearPart part{weight, Matrix(expected.data(), rows, weight.rows)};
  reference::Linear(Context(), ConstMatrix(x.data(), rows, weight.cols), {&part, 1});
  for (std::int64_t t = 0; t < rows; ++t) {
    there.insert(there.end(), actual.begin() + t * stride,
                 actual.begin() + t * stride + weight.rows);
  }
  ExpectClose(there, expected, tolerance::kMatrixUnits);
}

TEST_F(CudaDense, LinearMatchesTheOracle) {
  for (const auto& [format, inner, rows, activation_parts] : LinearShapes()) {
    const DeviceWeight wide(device(), stream(), format, 150, inner, 1),
        narrow(device(), stream(), format, 1, inner, 2),
        exact(device(), stream(), format, 128, inner, 3);
    const std::vector<float> x = RandomValues(rows * inner, 4);
    const OnDevice<float> in = Upload(x);
    const OnDevice<std::uint16_t> rounded = Filled<std::uint16_t>(2 * rows * inner, 0xFF);
    const std::vector<std::pair<const DeviceWeight*, std::int64_t>> parts = {
        {&wide, 150}, {&narrow, 3}, {&exact, 128}};  // with the rows' stride
    std::vector<OnDevice<float>> outs;
    LinearArgs args{.x = in.data(),
                    .x_stride = inner,
                    .rows = static_cast<std::int32_t>(rows),
                    .inner = static_cast<std::int32_t>(inner),
                    .count = 3,
                    .rounded = rounded.data(),
                    .activation_parts = activation_parts};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      outs.push_back(Filled<float>(rows * parts[i].second, 0xFF));
      args.outputs[i] = {parts[i].first->array(), outs.back().data(), parts[i].second};
    }
    ASSERT_TRUE(ops().Linear(stream(), args).ok());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ExpectProduct(outs[i].Read(), parts[i].second, Seen(x, activation_parts),
                    parts[i].first->view());
    }
  }
}

/// Every form of the product serves some number of rows here; all sum in the same order.
TEST_F(CudaDense, LinearBitsDependOnTheRowAlone) {
  struct Shape {
    std::int64_t inner, outs, rows;
  };
  // The second and third are large enough for thread blocks of several warps.
  for (const Shape& shape : {Shape{320, 48, 300}, Shape{96, 12'200, 70}, Shape{2592, 16'400, 65},
                             Shape{2560, 700, 520}}) {
    const std::int64_t inner = shape.inner, outs = shape.outs, all_rows = shape.rows;
    const DeviceWeight weight(device(), stream(), WeightFormat::kBf16, outs, inner, 1);
    const OnDevice<float> x = Upload(RandomValues(all_rows * inner, 2));
    const OnDevice<std::uint16_t> rounded = Filled<std::uint16_t>(2 * all_rows * inner, 0xFF);
    for (const int parts : {1, 2}) {
      const auto run = [&](std::int64_t first, std::int64_t rows) {
        const OnDevice<float> out = Filled<float>(rows * outs, 0xFF);
        EXPECT_TRUE(ops()
                        .Linear(stream(), {.x = x.data() + first * inner,
                                           .x_stride = inner,
                                           .rows = static_cast<std::int32_t>(rows),
                                           .inner = static_cast<std::int32_t>(inner),
                                           .count = 1,
                                           .outputs = {{weight.array(), out.data(), outs}},
                                           .rounded = rounded.data(),
                                           .activation_parts = parts})
                        .ok());
        return out.Read();
      };
      const std::vector<float> all = run(0, all_rows);
      const std::pair<std::int64_t, std::int64_t> cuts[] = {
          {0, 1},           {7, 8}, {8, 9}, {3, 33}, {1, 60}, {all_rows / 3, all_rows / 2},
          {all_rows - 1, 1}};
      for (const auto& [first, rows] : cuts) {
        ExpectSameBits(run(first, rows),
                       std::span(all).subspan(static_cast<std::size_t>(first * outs),
                                              static_cast<std::size_t>(rows * outs)));
      }
    }
  }
}

/// A NaN or an infinity reaches the outputs of its own row and of its own weight row alone.
TEST_F(CudaDense, LinearKeepsNanToItsRow) {
  constexpr std::int64_t kInner = 192, kOuts = 140;
  const DeviceWeight weight(device(), stream(), WeightFormat::kBf16, kOuts, kInner, 1);
  for (const std::int64_t rows : {3, 40, 200}) {
    std::vector<float> x = RandomValues(rows * kInner, 2);
    x[static_cast<std::size_t>(kInner + 5)] = NAN;
    x[static_cast<std::size_t>(2 * kInner + 191)] = INFINITY;
    const OnDevice<float> in = Upload(x), out = Filled<float>(rows * kOuts, 0xFF);
    const OnDevice<std::uint16_t> rounded = Filled<std::uint16_t>(rows * kInner, 0xFF);
    ASSERT_TRUE(ops()
                    .Linear(stream(), {.x = in.data(),
                                       .x_stride = kInner,
                                       .rows = static_cast<std::int32_t>(rows),
                                       .inner = kInner,
                                       .count = 1,
                                       .outputs = {{weight.array(), out.data(), kOuts}},
                                       .rounded = rounded.data()})
                    .ok());
    const std::vector<float> all = out.Read();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t row = i / kOuts;
      EXPECT_EQ(std::isfinite(all[i]), row != 1 && row != 2) << rows << " " << i;
    }
  }
}

TEST_F(CudaDense, LinearSplitsAreProductsOfTheirOwn) {
  constexpr std::int64_t kInner = 256, kOuts = 2570;
  const DeviceWeight weight(device(), stream(), WeightFormat::kFp16, kOuts, kInner, 1);
  for (const std::int64_t rows : {4, 40}) {
    const std::vector<float> x = RandomValues(rows * kInner, 2);
    const OnDevice<float> in = Upload(x), out = Filled<float>(4 * rows * kOuts, 0xFF);
    const OnDevice<std::uint16_t> rounded = Filled<std::uint16_t>(2 * rows * kInner, 0xFF);
    ASSERT_TRUE(ops()
                    .Linear(stream(), {.x = in.data(),
                                       .x_stride = kInner,
                                       .rows = static_cast<std::int32_t>(rows),
                                       .inner = kInner,
                                       .count = 1,
                                       .outputs = {{weight.array(), out.data(), kOuts}},
                                       .splits = 4,
                                       .rounded = rounded.data(),
                                       .activation_parts = 2})
                    .ok());
    const std::vector<float> parts = out.Read();
    std::vector<float> expected(static_cast<std::size_t>(rows * kOuts)), sums(expected.size());
    const LinearPart part{weight.view(), Matrix(expected.data(), rows, kOuts)};
    reference::Linear(Context(), ConstMatrix(x.data(), rows, kInner), {&part, 1});
    for (std::size_t i = 0; i < parts.size(); ++i) sums[i % sums.size()] += parts[i];
    ExpectClose(sums, expected, tolerance::kLinear);
  }
}

TEST_F(CudaDense, LinearRefusesWhatItHasNoKernelFor) {
  const DeviceWeight weight(device(), stream(), WeightFormat::kBf16, 4, 48, 1);
  const Result<void> refused = ops().Linear(
      stream(), {.rows = 1, .inner = 48, .count = 1, .outputs = {{weight.array(), nullptr, 4}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().what, "the inner dimension is 48, the GPU has multiples of 32");
}

TEST_F(CudaDense, EmbedCopiesRowsToEveryStream) {
  for (const WeightFormat format : kDeviceWeightFormats) {
    constexpr std::int64_t kHidden = 200, kStreams = 4;
    const DeviceWeight table(device(), stream(), format, 50, kHidden, 1);
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
  Mixer(Device& device, DeviceStream& stream, WeightFormat format, std::int64_t streams,
        std::int64_t hidden, std::int64_t low)
      : down(device, stream, format, low, streams * hidden, 1),
        up(device, stream, format, streams * hidden, low, 2),
        inject(device, stream, format, streams, streams * hidden, 3),
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
  const OwnedHyperConnectionWeights weights{mixer.gain, mixer.down.view(), mixer.up.view(),
                                            with_inject ? mixer.inject.view() : Weight{}};
  reference::HyperMix(Context(), ConstMatrix(streams.data(), rows, kWidth), weights, kStreams,
                      1e-6f, Matrix(mixed.x.data(), rows, kHidden),
                      Matrix(mixed.inject.data(), rows, kStreams));
  return mixed;
}

/// The first half becomes the sum of both.
void AddHalves(std::vector<float>& values) {
  const std::size_t half = values.size() / 2;
  for (std::size_t i = 0; i < half; ++i) values[i] += values[half + i];
}

/// Operands of one call; scratch starts as NaN. y comes in two parts.
struct MixOperands {
  MixOperands(Device& device, DeviceStream& stream, const Mixer& mixer, std::int64_t rows)
      : streams(RandomValues(rows * kWidth, 5, 2.0f)),
        y(RandomValues(2 * rows * kHidden, 6)),
        weights(RandomValues(rows * kStreams, 7)),
        device_streams(device, stream, streams),
        device_y(device, stream, y),
        gain(device, stream, mixer.gain),
        normed(device, stream, Nan(rows * kWidth)),
        parts(device, stream, Nan(rows * kWidth)),
        low(device, stream, Nan(rows * kLow)),
        rounded(device, stream, Nan(rows * kWidth)),
        rounded_low(device, stream, Nan(rows * kLow)),
        x(device, stream, Nan(rows * kHidden)),
        inject(device, stream, weights),
        args{.y = device_y.data(),
             .streams = device_streams.data(),
             .gain = gain.data(),
             .down = mixer.down.array(),
             .up = mixer.up.array(),
             .inject_weight = mixer.inject.array(),
             .rows = static_cast<std::int32_t>(rows),
             .stream_count = kStreams,
             .hidden = kHidden,
             .eps = 1e-6f,
             .normed = normed.data(),
             .parts = parts.data(),
             .low = low.data(),
             .rounded = reinterpret_cast<std::uint16_t*>(rounded.data()),
             .rounded_low = reinterpret_cast<std::uint16_t*>(rounded_low.data()),
             .x = x.data(),
             .inject = inject.data(),
             .y_parts = 2,
             .activation_parts = 2} {}
  static std::vector<float> Nan(std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count), NAN);
  }

  std::vector<float> streams, y, weights;
  OnDevice<float> device_streams, device_y, gain, normed, parts, low, rounded, rounded_low, x,
      inject;
  HyperMixArgs args;
};

TEST_F(CudaDense, HyperMixMatchesTheOracle) {
  const Mixer mixer(device(), stream(), WeightFormat::kBf16, kStreams, kHidden, kLow);
  for (const std::int64_t rows : {1, 3, 33, 150}) {
    for (const bool with_inject : {true, false}) {
      MixOperands mix(device(), stream(), mixer, rows);
      const bool combine = rows != 3;
      if (!combine) mix.args.y = nullptr;
      if (!with_inject) mix.args.inject_weight = {};
      ASSERT_TRUE(ops().HyperMix(stream(), mix.args).ok());
      if (combine) {
        AddHalves(mix.y);
        reference::HyperCombine(Context(), ConstMatrix(mix.y.data(), rows, kHidden),
                                ConstMatrix(mix.weights.data(), rows, kStreams),
                                Matrix(mix.streams.data(), rows, kWidth));
      }
      const Mixed expected = ExpectedMix(mixer, mix.streams, with_inject);
      ExpectClose(mix.device_streams.Read(), mix.streams, tolerance::kRounding);
      ExpectClose(mix.x.Read(), expected.x, tolerance::kHyperMix);
      ExpectClose(mix.inject.Read(), with_inject ? expected.inject : mix.weights,
                  tolerance::kHyperMix);
    }
  }
}

TEST_F(CudaDense, HyperMixBitsDependOnTheRowAlone) {
  const Mixer mixer(device(), stream(), WeightFormat::kFp16, kStreams, kHidden, kLow);
  for (const int parts : {1, 2}) {
    MixOperands all(device(), stream(), mixer, 150), one(device(), stream(), mixer, 1);
    all.args.y = one.args.y = nullptr;
    all.args.activation_parts = one.args.activation_parts = parts;
    ASSERT_TRUE(ops().HyperMix(stream(), all.args).ok());
    const std::vector<float> x = all.x.Read();
    for (const std::int64_t row : {0, 77, 149}) {
      one.args.streams = all.args.streams + row * kWidth;
      ASSERT_TRUE(ops().HyperMix(stream(), one.args).ok());
      ExpectSameBits(one.x.Read(),
                     std::span(x).subspan(static_cast<std::size_t>(row * kHidden), kHidden));
    }
  }
}

TEST_F(CudaDense, HyperMixRefusesOtherNumbersOfStreams) {
  const Mixer mixer(device(), stream(), WeightFormat::kBf16, 2, kHidden, kLow);
  const Result<void> refused = ops().HyperMix(
      stream(),
      {.down = mixer.down.array(), .up = mixer.up.array(), .stream_count = 2, .hidden = kHidden});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
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
