// From logits to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_choice.h"
#include "engine/token_history.h"
#include "kv8/request.h"

namespace kv8 {

/// What a random number is for; each use of a position has its own.
enum class Draw : std::uint32_t { kToken = 0, kDraft = 1, kAccept = 2, kResidual = 3 };

/// 64 random bits, a pure function of the arguments.
std::uint64_t RandomAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw);
/// The same as a number in [0, 1).
double UniformAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw);

/// The options as both samplers, this one and a GPU's, take them. `random` is for Draw::kToken.
ChoiceRule RuleOf(const SamplingOptions& options, std::uint64_t random);

/// Whether no logit is NaN or infinite: what everything below requires.
bool AllFinite(std::span<const float> logits);

/// Index of the largest; ties to the lower. NaN never wins.
TokenId ArgMaxToken(std::span<const float> logits);

/// The log-probabilities of `chosen` and of the `top` best. logits [V], unmodified.
PositionLogprobs LogprobsOf(std::span<const float> logits, TokenId chosen, int top);

/// -log softmax(logits)[token].
double NegativeLogLikelihood(std::span<const float> logits, TokenId token);

/// A token that may come next. Weights are in proportion to probabilities, and not 0.
struct Candidate {
  TokenId token = 0;
  float logit = 0;
  std::uint64_t weight = 0;
};

/// All tokens that may come next.
struct Candidates {
  std::vector<Candidate> tokens;  // in no order
  std::uint64_t total = 0;        // of the weights; at most 2^63

  /// The token at random / 2^64 of the total weight, the more likely first: base/token_choice.h.
  /// Changes the order of `tokens`. Takes time linear in their number.
  TokenId At(std::uint64_t random);
  /// Its probability; 0 for a token that is not among them.
  double Of(TokenId token) const;
};

/// Reusable working memory; holds no state between calls.
class Sampler {
 public:
  /// Adds the logit bias and applies the penalties, in place.
  static void Adjust(const SamplingOptions& options, const TokenHistory& history,
                     std::span<float> logits);

  /// What temperature, top-k, top-p and min-p leave of adjusted logits. Requires temperature > 0
  /// and a finite logit; a token whose logit is -infinity is left out. Valid until the next call.
  Candidates& Distribution(const SamplingOptions& options, std::span<const float> logits);

  /// The next token for adjusted logits: argmax at temperature 0, else a draw for this position.
  TokenId Next(const SamplingOptions& options, std::span<const float> logits, int choice,
               std::int64_t position);

  /// The token at random / 2^64 of max(0, p - q), the order as in Candidates::At. Takes time linear
  /// in the number of candidates.
  TokenId DrawResidual(Candidates& p, const Candidates& q, std::uint64_t random);

 private:
  Candidates candidates_;
  Candidates residual_;
  std::vector<double> by_token_;  // probabilities of a draw under way; all zero between calls
};

}  // namespace kv8
