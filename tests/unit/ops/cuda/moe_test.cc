// Experts on the GPU against the oracle.
#include <cmath>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/device_weight.h"

namespace kv8::cuda {
namespace {

using CudaMoe = CudaTest;

/// Weights of one layer and the scratch of up to `rows` rows.
struct Layer {
  Layer(Device& device, DeviceStream& stream, WeightFormat format, const MoeConfig& of,
        std::int64_t hidden, std::int64_t rows)
      : config(of),
        width(hidden),
        router(device, stream, format, of.experts, hidden, 1),
        gate_up(device, stream, format, 2LL * of.experts * of.expert_dim, hidden, 2),
        down(device, stream, format, of.experts * hidden, of.expert_dim, 3),
        shared_gate_proj(device, stream, format, of.shared_expert_dim, hidden, 4),
        shared_up_proj(device, stream, format, of.shared_expert_dim, hidden, 5),
        shared_down_proj(device, stream, format, hidden, of.shared_expert_dim, 6),
        shared_gate(device, stream, format, 1, hidden, 7) {
    args = {.hidden = static_cast<std::int32_t>(hidden),
            .experts = of.experts,
            .experts_per_token = of.experts_per_token,
            .expert_dim = of.expert_dim,
            .shared_dim = of.shared_expert_dim,
            .router = router.array(),
            .gate_up = gate_up.Stack(of.experts),
            .down = down.Stack(of.experts),
            .shared_gate_proj = shared_gate_proj.array(),
            .shared_up_proj = shared_up_proj.array(),
            .shared_down_proj = shared_down_proj.array(),
            .shared_gate = shared_gate.array()};
    MakeScratch(device, stream, rows);
  }

  /// Every scratch array starts as NaN.
  void MakeScratch(Device& device, DeviceStream& stream, std::int64_t rows) {
    const std::int64_t pairs = rows * config.experts_per_token;
    const auto make = [&]<class T>(T*& array, std::int64_t count) {
      scratch.push_back(device.Allocate(count * 4, "a test").value());
      EXPECT_TRUE(stream.Fill(scratch.back().data(), std::byte{0xFF}, count * 4).ok());
      array = scratch.back().As<T>();
    };
    make(args.logits, rows * config.experts);
    make(args.chosen, pairs);
    make(args.weights, pairs);
    make(args.counts, config.experts);
    EXPECT_TRUE(stream.Fill(args.counts, std::byte{0}, config.experts * 4).ok());
    make(args.cursors, config.experts);
    make(args.begins, config.experts + 1);
    make(args.tiles, 3 * (1 + MaxExpertTiles(config.experts, pairs, kFewRows)));
    make(args.pairs, pairs);
    make(args.rounded, rows * width);
    make(args.expert_hidden, pairs * config.expert_dim);
    make(args.expert_out, pairs * width);
    make(args.shared_hidden, rows * 2 * config.shared_expert_dim);
    make(args.shared_gate_value, rows);
    make(args.shared_out, rows * width);
  }

  std::vector<float> Expected(const std::vector<float>& x) const {
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
    const MoeWeights weights{
        router.view(),
        ExpertsOf(gate_up.view(), config.experts, 0, config.expert_dim),
        ExpertsOf(gate_up.view(), config.experts, config.expert_dim, config.expert_dim),
        ExpertsOf(down.view(), config.experts, 0, width),
        shared_gate_proj.view(),
        shared_up_proj.view(),
        shared_down_proj.view(),
        shared_gate.view()};
    std::vector<float> out(x.size());
    ThreadPool pool(1);
    reference::Moe({pool}, config, weights, ConstMatrix(x.data(), rows, width),
                   Matrix(out.data(), rows, width));
    return out;
  }

  MoeConfig config;
  std::int64_t width;
  DeviceWeight router, gate_up, down, shared_gate_proj, shared_up_proj, shared_down_proj,
      shared_gate;
  std::vector<DeviceMemory> scratch;
  MoeArgs args{};
};

std::vector<float> RunMoe(Device& device, DeviceStream& stream, const CudaOps& ops,
                          const Layer& layer, const std::vector<float>& x, int parts) {
  const OnDevice<float> in(device, stream, x);
  const OnDevice<float> out(device, stream, std::vector<float>(x.size(), NAN));
  MoeArgs args = layer.args;
  args.x = in.data();
  args.rows = static_cast<std::int32_t>(static_cast<std::int64_t>(x.size()) / layer.width);
  args.out = out.data();
  args.activation_parts = parts;
  const Result<void> launched = ops.Moe(stream, args);
  EXPECT_TRUE(launched.ok()) << launched.error().ToString();
  return out.Read();
}

/// Root of the mean square of the differences, over that of the expected values.
double RelativeError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    all += std::pow(expected[i], 2);
  }
  return std::sqrt(error / all);
}

TEST_F(CudaMoe, MatchesTheOracle) {
  struct Shape {
    MoeConfig config;
    std::int64_t hidden;
  };
  for (const Shape& shape : {Shape{{16, 4, 64, 64}, 192}, Shape{{64, 10, 32, 96}, 64},
                             Shape{{3, 3, 64, 32}, 32}, Shape{{200, 1, 32, 32}, 32}}) {
    for (const WeightFormat format : kDeviceWeightFormats) {
      const Layer layer(device(), stream(), format, shape.config, shape.hidden, 600);
      for (const std::int64_t rows : {1, 5, 70, 600}) {
        const std::vector<float> x = RandomValues(rows * shape.hidden, 8, 2.0f);
        ExpectClose(RunMoe(device(), stream(), ops(), layer, x, 2), layer.Expected(x),
                    tolerance::kMoe);
        // What stands between the products is rounded too: by 2^-11 of each value at most.
        EXPECT_LE(RelativeError(RunMoe(device(), stream(), ops(), layer, x, 1),
                                layer.Expected(Seen(x, 1))),
                  std::exp2(-11.0));
      }
    }
  }
}

TEST_F(CudaMoe, BitsDependOnTheRowAlone) {
  const MoeConfig config{16, 4, 64, 64};
  const Layer layer(device(), stream(), WeightFormat::kBf16, config, 192, 700);
  const std::vector<float> x = RandomValues(700 * 192, 8, 2.0f);
  for (const int parts : {1, 2}) {
    const std::vector<float> all = RunMoe(device(), stream(), ops(), layer, x, parts);
    for (const auto& [first, rows] : {std::pair{0, 1}, {33, 1}, {60, 70}, {100, 300}, {699, 1}}) {
      const std::vector<float> some(x.begin() + first * 192, x.begin() + (first + rows) * 192);
      ExpectSameBits(RunMoe(device(), stream(), ops(), layer, some, parts),
                     std::span(all).subspan(static_cast<std::size_t>(first * 192),
                                            static_cast<std::size_t>(rows * 192)));
    }
  }
}

/// Equal logits: the lower experts, with equal weights.
TEST_F(CudaMoe, TiesGoToTheLowerExpert) {
  const MoeConfig config{40, 3, 32, 32};
  const Layer layer(device(), stream(), WeightFormat::kBf16, config, 32, 1);
  const std::vector<float> x(32, 0.0f);  // every logit is zero
  RunMoe(device(), stream(), ops(), layer, x, 1);
  std::vector<std::int32_t> chosen(3);
  std::vector<float> weights(3);
  ASSERT_TRUE(stream().Copy(chosen.data(), layer.args.chosen, 12).ok());
  ASSERT_TRUE(stream().Copy(weights.data(), layer.args.weights, 12).ok());
  ASSERT_TRUE(stream().Synchronize().ok());
  EXPECT_EQ(chosen, (std::vector<std::int32_t>{0, 1, 2}));
  for (const float weight : weights) EXPECT_NEAR(weight, 1.0f / 3, tolerance::kRounding);
}

}  // namespace
}  // namespace kv8::cuda
