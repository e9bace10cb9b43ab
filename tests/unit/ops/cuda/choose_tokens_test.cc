// Tokens drawn on the GPU.
#include <limits>
#include <random>

#include "support/choice_oracle.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/random_values.h"

namespace kv8::cuda {
namespace {

using test::ChosenToken;
using test::MakeRule;
using CudaChooseTokens = CudaTest;

/// One row per rule.
struct Choice {
  std::int32_t vocab;
  std::int64_t stride;
  std::vector<float> logits;
  std::vector<ChoiceRule> rules;

  std::span<const float> Row(std::size_t row) const {
    return std::span(logits).subspan(row * static_cast<std::size_t>(stride),
                                     static_cast<std::size_t>(vocab));
  }
};

class Chooser {
 public:
  Chooser(Device& device, DeviceStream& stream, const Choice& choice)
      : rows_(static_cast<std::int32_t>(choice.rules.size())),
        stream_(stream),
        logits_(device, stream, choice.logits),
        rules_(device, stream, choice.rules),
        parts_(device, stream, Zeros<std::uint64_t>(ArgmaxParts(choice.vocab))),
        weights_(device, stream, Zeros<std::uint64_t>(kChoiceBins)),
        list_(device, stream, Zeros<std::uint64_t>(kMaxListed)),
        counts_(device, stream, Zeros<std::uint32_t>(kChoiceBins)),
        state_(device, stream, Zeros<ChoiceRow>(1)),
        tickets_(device, stream, Zeros<std::int32_t>(1)),
        tokens_(device, stream, Zeros<std::int32_t>(1)),
        best_{logits_.data(), choice.stride,   rows_,         choice.vocab,
              parts_.data(),  tickets_.data(), tokens_.data()},
        args_{logits_.data(),  choice.stride,  rows_,         choice.vocab, rules_.data(),
              weights_.data(), counts_.data(), state_.data(), list_.data(), tokens_.data()} {}

  std::vector<std::int32_t> Run(const CudaOps& ops) {
    EXPECT_TRUE(ops.Argmax(stream_, best_).ok());
    EXPECT_TRUE(ops.ChooseTokens(stream_, args_).ok());
    return tokens_.Read();
  }

 private:
  template <class T>
  std::vector<T> Zeros(std::int64_t per_row) const {
    return std::vector<T>(static_cast<std::size_t>(rows_ * per_row));
  }

  std::int32_t rows_;
  DeviceStream& stream_;
  OnDevice<float> logits_;
  OnDevice<ChoiceRule> rules_;
  OnDevice<std::uint64_t> parts_, weights_, list_;
  OnDevice<std::uint32_t> counts_;
  OnDevice<ChoiceRow> state_;
  OnDevice<std::int32_t> tickets_, tokens_;
  ArgmaxArgs best_;
  ChooseTokensArgs args_;
};

/// Twice: scratch must be zero again.
void ExpectTheOracle(Device& device, DeviceStream& stream, const CudaOps& ops,
                     const Choice& choice) {
  Chooser chooser(device, stream, choice);
  for (int time = 0; time < 2; ++time) {
    const std::vector<std::int32_t> tokens = chooser.Run(ops);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      EXPECT_EQ(tokens[row], ChosenToken(choice.Row(row), choice.rules[row]))
          << "row " << row << " of " << choice.vocab << " tokens, time " << time << ", scale "
          << choice.rules[row].scale << ", top-k " << choice.rules[row].top_k << ", top-p "
          << choice.rules[row].top_p << ", min-p to " << choice.rules[row].max_distance;
    }
  }
}

/// `count` rules with options of every kind, extremes among them.
std::vector<ChoiceRule> AnyRules(int count, std::int32_t vocab, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
  const int top_k[] = {0, 0, 1, 2, 20, 1000, vocab - 1, vocab, vocab + 1, 1 << 30};
  const double top_p[] = {1, 1, 1e-18, 0.1, 0.5, 0.9, 0.999, 1 - 0x1p-24};
  const double min_p[] = {0, 0, 0, 1e-20, 0.05, 0.5, 1};
  const double temperature[] = {1e-42, 1e-4, 0.1, 0.7, 1, 1, 1.5, 100};
  std::vector<ChoiceRule> rules;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t draw = i % 8 == 0 ? 0 : i % 8 == 1 ? ~std::uint64_t{0} : random();
    rules.push_back(MakeRule(one_of(temperature), std::max(0, one_of(top_k)), one_of(top_p),
                             one_of(min_p), draw));
  }
  return rules;
}

TEST_F(CudaChooseTokens, MatchesTheOracle) {
  for (const std::int32_t vocab : {1, 2, 33, 5000, 8192, 8193, 100'003}) {
    const int rows = vocab > 50'000 ? 24 : 64;
    Choice choice{vocab, vocab + 3, {}, AnyRules(rows, vocab, static_cast<unsigned>(vocab))};
    choice.logits = RandomValues(rows * choice.stride, 1, 3.0f);
    for (int row = 0; row < rows; ++row) {  // what lies between rows does not count
      choice.logits[static_cast<std::size_t>(row * choice.stride + vocab)] = 1e30f;
    }
    ExpectTheOracle(device(), stream(), ops(), choice);
  }
}

TEST_F(CudaChooseTokens, AgreesForALargeVocabularyAndEveryOption) {
  constexpr std::int32_t kVocab = 248'320;
  Choice choice{kVocab, kVocab, {}, AnyRules(64, kVocab, 5)};
  choice.logits = RandomValues(64LL * kVocab, 1, 2.5f);
  ExpectTheOracle(device(), stream(), ops(), choice);
}

/// More candidates than the list holds, and none of them apart from the others.
TEST_F(CudaChooseTokens, MatchesForEqualLogits) {
  constexpr std::int32_t kVocab = 50'000;
  Choice choice{kVocab, kVocab, std::vector<float>(32LL * kVocab, -3.0f), AnyRules(32, kVocab, 6)};
  for (std::size_t i = 0; i < choice.logits.size(); ++i) {
    const std::size_t row = i / kVocab;
    if (row % 4 == 1) choice.logits[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (row % 4 == 2) choice.logits[i] = static_cast<float>(i % 7);
    if (row % 4 == 3) choice.logits[i] = i % 5 == 0 ? 3e38f : -3e38f;
  }
  ExpectTheOracle(device(), stream(), ops(), choice);
}

TEST_F(CudaChooseTokens, LeavesRowsThatDrawNothing) {
  constexpr std::int32_t kVocab = 20'000;
  Choice choice{kVocab, kVocab, RandomValues(4LL * kVocab, 1), AnyRules(4, kVocab, 7)};
  choice.rules[0] = {};  // the best
  choice.logits[kVocab + 19'999] = std::numeric_limits<float>::quiet_NaN();
  choice.logits[2 * kVocab] = std::numeric_limits<float>::infinity();
  choice.logits[3 * kVocab + 9000] = -std::numeric_limits<float>::infinity();
  const std::vector<std::int32_t> tokens = Chooser(device(), stream(), choice).Run(ops());
  EXPECT_EQ(tokens[0], ChosenToken(choice.Row(0), choice.rules[0]));
  for (const std::size_t row : {1u, 2u, 3u}) EXPECT_EQ(tokens[row], kNoToken);
}

}  // namespace
}  // namespace kv8::cuda
