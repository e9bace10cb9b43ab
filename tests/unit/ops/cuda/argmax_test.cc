// The most likely token on the GPU.
#include <cmath>
#include <limits>

#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/random_values.h"

namespace kv8::cuda {
namespace {

using CudaArgmax = CudaTest;

/// The op's contract, one logit after another.
std::int32_t Expected(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return kNoToken;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<std::int32_t>(best);
}

/// Rows of `stride` logits of which `vocab` count; twice, since tickets must be zero again.
struct Search {
  Search(Device& device, DeviceStream& stream, std::int32_t rows, std::int32_t vocab,
         const std::vector<float>& logits)
      : logits_(device, stream, logits),
        parts_(device, stream,
               std::vector<std::uint64_t>(static_cast<std::size_t>(rows * ArgmaxParts(vocab)), 77)),
        tickets_(device, stream, std::vector<std::int32_t>(static_cast<std::size_t>(rows))),
        tokens_(device, stream, std::vector<std::int32_t>(static_cast<std::size_t>(rows), -7)),
        args{logits_.data(), static_cast<std::int64_t>(logits.size()) / rows,
             rows,           vocab,
             parts_.data(),  tickets_.data(),
             tokens_.data()} {}
  std::vector<std::int32_t> Run(DeviceStream& stream, const CudaOps& ops) {
    EXPECT_TRUE(ops.Argmax(stream, args).ok());
    EXPECT_TRUE(ops.Argmax(stream, args).ok());
    return tokens_.Read();
  }

 private:
  OnDevice<float> logits_;
  OnDevice<std::uint64_t> parts_;
  OnDevice<std::int32_t> tickets_, tokens_;

 public:
  ArgmaxArgs args;
};

TEST_F(CudaArgmax, MatchesTheOracle) {
  for (const auto& [rows, vocab] :
       {std::pair{3, 1}, std::pair{2, 50}, std::pair{5, 8193}, std::pair{2, 248'320}}) {
    const std::int64_t stride = vocab + 3;
    std::vector<float> logits = RandomValues(rows * stride, 1, 5.0f);
    for (int row = 0; row < rows; ++row) {  // what lies between rows does not count
      logits[static_cast<std::size_t>(row * stride + vocab)] = NAN;
      logits[static_cast<std::size_t>(row * stride + vocab + 1)] = 1e30f;
    }
    Search search(device(), stream(), rows, vocab, logits);
    const std::vector<std::int32_t> tokens = search.Run(stream(), ops());
    for (int row = 0; row < rows; ++row) {
      EXPECT_EQ(tokens[static_cast<std::size_t>(row)],
                Expected(std::span(logits).subspan(static_cast<std::size_t>(row * stride),
                                                   static_cast<std::size_t>(vocab))));
    }
  }
}

TEST_F(CudaArgmax, TiesGoToTheLowerToken) {
  constexpr std::int32_t kVocab = 100'000;
  std::vector<float> logits(3 * kVocab, -5.0f);
  for (const std::size_t at : {90'000u, 20'001u, 20'002u, 70'000u}) logits[at] = -1.0f;
  logits[kVocab + 77] = -0.0f, logits[kVocab + 99] = 0.0f;  // equal
  std::fill(logits.begin() + 2 * kVocab, logits.end(), 3.0f);
  Search search(device(), stream(), 3, kVocab, logits);
  EXPECT_EQ(search.Run(stream(), ops()), (std::vector<std::int32_t>{20'001, 77, 0}));
}

TEST_F(CudaArgmax, WhatIsNotFiniteIsTold) {
  constexpr std::int32_t kVocab = 20'000;
  std::vector<float> logits = RandomValues(4 * kVocab, 1);
  logits[5] = NAN;
  logits[kVocab + 19'999] = std::numeric_limits<float>::infinity();
  logits[2 * kVocab + 9000] = -std::numeric_limits<float>::infinity();
  Search search(device(), stream(), 4, kVocab, logits);
  const std::vector<std::int32_t> tokens = search.Run(stream(), ops());
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(tokens[static_cast<std::size_t>(row)], kNoToken);
  }
  EXPECT_GE(tokens[3], 0);
}

}  // namespace
}  // namespace kv8::cuda
