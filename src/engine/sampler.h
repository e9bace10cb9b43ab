// From logits to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/token_history.h"
#include "kv8/request.h"

namespace kv8 {

/// What a random number is for; each use of a position has its own.
enum class Draw : std::uint32_t { kToken = 0, kDraft = 1, kAccept = 2, kResidual = 3 };

/// Uniform in [0, 1), a pure function of its arguments.
double UniformAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw);

/// Whether no logit is NaN or infinite: what everything below requires.
bool AllFinite(std::span<const float> logits);

/// Index of the largest; ties to the lower. NaN never wins.
TokenId ArgMaxToken(std::span<const float> logits);

/// The log-probabilities of `chosen` and of the `top` best. logits [V], unmodified.
PositionLogprobs LogprobsOf(std::span<const float> logits, TokenId chosen, int top);

/// -log softmax(logits)[token].
double NegativeLogLikelihood(std::span<const float> logits, TokenId token);

/// Tokens that may come next and their probabilities, which sum to 1.
struct Candidates {
  std::vector<TokenId> tokens;
  std::vector<double> probabilities;

  /// The token at quantile `uniform`.
  TokenId At(double uniform) const;
  /// 0 for a token that is not among them.
  double Of(TokenId token) const;
};

/// Reusable working memory; holds no state between calls.
class Sampler {
 public:
  /// Adds the logit bias and applies the penalties, in place.
  static void Adjust(const SamplingOptions& options, const TokenHistory& history,
                     std::span<float> logits);

  /// The distribution after temperature, top-k, top-p and min-p of adjusted logits. Requires
  /// temperature > 0. Valid until the next call.
  const Candidates& Distribution(const SamplingOptions& options, std::span<const float> logits);

  /// The next token for adjusted logits: argmax at temperature 0, else a draw for this position.
  TokenId Next(const SamplingOptions& options, std::span<const float> logits, int choice,
               std::int64_t position);

  /// The token at quantile `uniform` of max(0, p - q), normalised, in the order of p. Takes time
  /// linear in the number of candidates.
  TokenId DrawResidual(const Candidates& p, const Candidates& q, double uniform);

 private:
  void KeepBest(std::span<const float> logits, std::size_t count);
  void KeepTopP(const SamplingOptions& options, std::span<const float> logits);

  Candidates candidates_;
  std::vector<TokenId> order_;
  Candidates residual_;
  std::vector<double> by_token_;  // probabilities of a draw under way; all zero between calls
};

}  // namespace kv8
