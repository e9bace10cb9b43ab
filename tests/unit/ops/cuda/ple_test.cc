// The n-gram memory on the GPU against its oracle, and its state.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/device_weight.h"
#include "unit/ops/owned_weights.h"

namespace kv8::cuda {
namespace {

using CudaPle = CudaTest;

constexpr std::int64_t kHidden = 96, kStreams = 4, kWidth = kStreams * kHidden, kHeads = 8,
                       kHeadDim = 12, kEmbed = kHeads * kHeadDim, kHistory = 9, kShardRows = 45;
constexpr TokenId kEos = 0;

/// Two sequences of a batch, each in a slot of its own.
struct Case {
  Case(Device& device, DeviceStream& stream, std::vector<std::int32_t> rows_of)
      : counts(std::move(rows_of)),
        key(device, stream, WeightFormat::kBf16, kWidth, kEmbed, 1),
        value(device, stream, WeightFormat::kBf16, kHidden, kEmbed, 2) {
    config = {.embed_dim = kEmbed, .conv_kernel = 4, .ngram_size = 3, .heads_per_ngram = 4};
    weights.hash = {{23703573157769, 20109073645365, 8052911324071},
                    {11, 13, 17, 19, 23, 29, 31, 37},
                    {0, 11, 24, 41, 60, 83, 112, 143},
                    4,
                    kEos};
    for (std::uint32_t s = 0; s < 4; ++s) {
      shards.push_back(std::make_unique<DeviceWeight>(device, stream, WeightFormat::kBf16,
                                                      kShardRows, kHeadDim, 10 + s));
      weights.shards.push_back(shards.back()->view());
    }
    weights.key = key.view(), weights.value = value.view();
    weights.gain_key = RandomValues(kWidth, 3), weights.gain_query = RandomValues(kWidth, 4);
    weights.gain_conv = RandomValues(kWidth, 5), weights.conv = RandomValues(kWidth * 4, 6);
    for (const std::int32_t count : counts) rows += count;
    streams = RandomValues(rows * kWidth, 7);
    std::mt19937 engine(8);
    for (std::int64_t t = 0; t < rows; ++t) ids.push_back(static_cast<TokenId>(engine() % 12));
    conv_state.assign(counts.size() * kHistory * kWidth, 0.0f);
    context.assign(counts.size() * 2, kEos);
  }

  struct Outcome {
    std::vector<float> streams, conv_state;
    std::vector<TokenId> context;
  };

  Outcome Expected() const {
    Outcome out{streams, conv_state, context};
    std::vector<PleSlice> slices;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < counts.size(); begin += counts[i++]) {
      slices.push_back(
          {begin, counts[i],
           std::span<float>(out.conv_state).subspan(i * kHistory * kWidth, kHistory * kWidth),
           std::span<TokenId>(out.context).subspan(i * 2, 2)});
    }
    ThreadPool pool(1);
    reference::Ple({pool}, config, weights, ids, {}, slices, kStreams, 1e-6f,
                   Matrix(out.streams.data(), rows, kWidth));
    return out;
  }

  std::vector<std::int32_t> counts;
  std::int64_t rows = 0;
  PleConfig config;
  DeviceWeight key, value;
  std::vector<std::unique_ptr<DeviceWeight>> shards;
  OwnedPleWeights weights;
  std::vector<float> streams, conv_state;
  std::vector<TokenId> ids, context;
};

/// A case's arrays on the device; scratch starts as NaN.
struct Operands {
  Operands(Device& device, DeviceStream& stream, const Case& of)
      : test(of),
        ids(device, stream, of.ids),
        head_sizes(device, stream, of.weights.hash.head_sizes),
        offsets(device, stream, of.weights.hash.offsets),
        shards(device, stream, ShardPointers(of)),
        gain_key(device, stream, of.weights.gain_key),
        gain_query(device, stream, of.weights.gain_query),
        gain_conv(device, stream, of.weights.gain_conv),
        conv(device, stream, of.weights.conv),
        conv_state(device, stream, of.conv_state),
        context(device, stream, of.context),
        streams(device, stream, of.streams),
        scratch(device, stream,
                std::vector<float>(static_cast<std::size_t>(of.rows * (4 * kWidth + kEmbed)), NAN)),
        rounded(device, stream,
                std::vector<float>(static_cast<std::size_t>(of.rows * kEmbed), NAN)) {}

  static std::vector<const std::uint16_t*> ShardPointers(const Case& of) {
    std::vector<const std::uint16_t*> pointers;
    for (const auto& shard : of.shards)
      pointers.push_back(reinterpret_cast<const std::uint16_t*>(shard->array().codes));
    return pointers;
  }

  PleArgs Args() const {
    float* const base = scratch.data();
    PleArgs args{.ids = ids.data(),
                 .streams = kStreams,
                 .hidden = kHidden,
                 .heads = kHeads,
                 .head_dim = kHeadDim,
                 .heads_per_ngram = 4,
                 .ngram_size = 3,
                 .conv_kernel = 4,
                 .eos = kEos,
                 .eps = 1e-6f};
    std::copy_n(test.weights.hash.multipliers.begin(), 3, args.multipliers);
    args.head_sizes = head_sizes.data(), args.offsets = offsets.data();
    args.shards = shards.data(), args.shard_rows = kShardRows;
    args.key = test.key.array(), args.value = test.value.array();
    args.gain_key = gain_key.data(), args.gain_query = gain_query.data();
    args.gain_conv = gain_conv.data(), args.conv = conv.data();
    args.conv_state = conv_state.data(), args.context = context.data();
    args.keys = base, args.gated = base + test.rows * kWidth;
    args.normed = base + 2 * test.rows * kWidth, args.values = base + 3 * test.rows * kWidth;
    args.memory = base + 4 * test.rows * kWidth;
    args.residual = streams.data();
    args.rounded = reinterpret_cast<std::uint16_t*>(rounded.data());
    args.activation_parts = 2;
    return args;
  }

  const Case& test;
  OnDevice<TokenId> ids;
  OnDevice<std::int64_t> head_sizes, offsets;
  OnDevice<const std::uint16_t*> shards;
  OnDevice<float> gain_key, gain_query, gain_conv, conv, conv_state;
  OnDevice<TokenId> context;
  OnDevice<float> streams, scratch, rounded;
};

/// One call for rows [begins[i], begins[i] + counts[i]) of each sequence, which are neighbours.
void Call(Device& device, DeviceStream& stream, const CudaOps& ops, const Operands& operands,
          std::int64_t first_row, std::vector<std::int32_t> slots,
          std::vector<std::int32_t> counts) {
  std::vector<std::int32_t> begins, sequence;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    begins.push_back(static_cast<std::int32_t>(sequence.size()));
    sequence.insert(sequence.end(), static_cast<std::size_t>(counts[i]), slots[i]);
  }
  const OnDevice<std::int32_t> slot(device, stream, slots), begin(device, stream, begins),
      count(device, stream, counts), rows(device, stream, sequence);
  PleArgs args = operands.Args();
  args.ids += first_row, args.residual += first_row * kWidth;
  args.rows = {rows.data(), nullptr, static_cast<std::int32_t>(sequence.size())};
  args.slices = {slot.data(), begin.data(), count.data(), static_cast<std::int32_t>(slots.size())};
  const Result<void> launched = ops.Ple(stream, args);
  EXPECT_TRUE(launched.ok()) << launched.error().ToString();
  EXPECT_TRUE(stream.Synchronize().ok());
}

void ExpectOutcome(const Operands& operands, const Case::Outcome& expected) {
  ExpectClose(operands.streams.Read(), expected.streams, tolerance::kPle);
  ExpectClose(operands.conv_state.Read(), expected.conv_state, tolerance::kPle);
  EXPECT_EQ(operands.context.Read(), expected.context);
}

TEST_F(CudaPle, MatchesTheOracle) {
  for (const std::vector<std::int32_t>& counts :
       {std::vector<std::int32_t>{1, 1}, {2, 30}, {70, 1, 5}}) {
    const Case test(device(), stream(), counts);
    const Operands operands(device(), stream(), test);
    std::vector<std::int32_t> slots(counts.size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
    Call(device(), stream(), ops(), operands, 0, slots, counts);
    ExpectOutcome(operands, test.Expected());
  }
}

TEST_F(CudaPle, AnyCutGivesTheSame) {
  const Case test(device(), stream(), {23});
  for (const std::int32_t step : {1, 2, 10}) {
    const Operands operands(device(), stream(), test);
    for (std::int32_t done = 0; done < 23; done += step) {
      Call(device(), stream(), ops(), operands, done, {0}, {std::min(step, 23 - done)});
    }
    ExpectOutcome(operands, test.Expected());
  }
}

}  // namespace
}  // namespace kv8::cuda
