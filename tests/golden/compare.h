// Comparisons of a run with a golden file. Tolerances are the project's promises, each in one
// place.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "probe.h"
#include "support/golden.h"
#include "support/sequence_runner.h"

namespace kv8::test {

// FP32 arithmetic in another order than the reference's, through 12 layers.
inline constexpr float kActivationTolerance = 1e-3f;
// Argmax may differ where the two best logits are closer than the logits' own tolerance.
inline constexpr float kTieGap = 1e-3f;
// A mean over hundreds of tokens averages the rounding out.
inline constexpr double kMeanNllTolerance = 1e-4;

/// Largest |a - b|; infinite when a NaN or a size mismatch is involved.
float MaxAbsDifference(std::span<const float> a, std::span<const float> b);

/// -log softmax(logits[t])[ids[t + 1]] for every t but the last row. logits [T,V].
std::vector<double> NegativeLogLikelihoods(std::span<const float> logits,
                                           std::span<const TokenId> ids, std::int64_t vocab);

/// KL(p || q) of two rows of logits, natural log.
double KlDivergence(std::span<const float> p_logits, std::span<const float> q_logits);

/// Rows whose argmax differs from `expected` although this run's gap exceeds kTieGap.
std::vector<std::size_t> ArgMaxMismatches(std::span<const float> logits,
                                          std::span<const std::int32_t> expected,
                                          std::int64_t vocab);

/// Compares streams, keys, values and visible tokens of the last rows.
void ExpectTailsMatch(const Golden& golden, const TailProbe& probe, const ModelSpec& config,
                      std::int64_t tokens);

}  // namespace kv8::test
