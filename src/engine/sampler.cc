#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace kv8 {
namespace {

/// The finalizer of splitmix64: every input bit reaches every output bit.
std::uint64_t Scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Independent partial results: what lets the compiler use vectors.
constexpr std::size_t kLanes = 16;

/// -infinity when there is none. NaN never wins.
float Largest(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  float largest = *std::max_element(lanes.begin(), lanes.end());
  for (; i < values.size(); ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

/// log sum exp, over the largest.
double LogSumExp(std::span<const float> logits, double largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

/// More likely first; ties to the lower id.
struct ByLogit {
  std::span<const float> logits;
  bool operator()(TokenId a, TokenId b) const {
    const float la = logits[static_cast<std::size_t>(a)];
    const float lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  }
};

/// Cuts to the first `count` candidates and makes them sum to 1.
void Truncate(Candidates& candidates, std::size_t count) {
  candidates.tokens.resize(count);
  candidates.probabilities.resize(count);
  const double sum =
      std::accumulate(candidates.probabilities.begin(), candidates.probabilities.end(), 0.0);
  for (double& p : candidates.probabilities) p /= sum;
}

void Softmax(std::span<const float> logits, double temperature, Candidates& candidates) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const TokenId token : candidates.tokens) {
    largest = std::max(largest, static_cast<double>(logits[static_cast<std::size_t>(token)]));
  }
  candidates.probabilities.clear();
  for (const TokenId token : candidates.tokens) {
    const double logit = logits[static_cast<std::size_t>(token)];
    candidates.probabilities.push_back(std::exp((logit - largest) / temperature));
  }
  Truncate(candidates, candidates.tokens.size());
}

}  // namespace

double UniformAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw) {
  const auto where = (static_cast<std::uint64_t>(choice) << 32) | static_cast<std::uint32_t>(draw);
  const std::uint64_t bits =
      Scramble(Scramble(Scramble(seed) ^ where) ^ static_cast<std::uint64_t>(position));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

bool AllFinite(std::span<const float> logits) {
  // A finite number times zero is zero, infinity and NaN give NaN, which stays in a sum.
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += 0.0f * logits[i + lane];
  }
  float sum = std::accumulate(sums.begin(), sums.end(), 0.0f);
  for (; i < logits.size(); ++i) sum += 0.0f * logits[i];
  return sum == 0;
}

TokenId ArgMaxToken(std::span<const float> logits) {
  // The first block that holds the largest is found lane by lane, the place in it one by one.
  constexpr std::size_t kBlock = 16 * kLanes;
  float largest = -std::numeric_limits<float>::infinity();
  std::size_t best_block = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float in_block = Largest(logits.subspan(begin, std::min(kBlock, logits.size() - begin)));
    if (in_block > largest) {
      largest = in_block;
      best_block = begin;
    }
  }
  const auto block = logits.subspan(best_block, std::min(kBlock, logits.size() - best_block));
  const auto found = std::find(block.begin(), block.end(), largest);
  if (found == block.end()) return 0;  // nothing but NaN
  return static_cast<TokenId>(best_block + static_cast<std::size_t>(found - block.begin()));
}

double NegativeLogLikelihood(std::span<const float> logits, TokenId token) {
  const double largest = logits[static_cast<std::size_t>(ArgMaxToken(logits))];
  return LogSumExp(logits, largest) - logits[static_cast<std::size_t>(token)];
}

PositionLogprobs LogprobsOf(std::span<const float> logits, TokenId chosen, int top) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<std::ptrdiff_t>(top, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), ByLogit{logits});

  const double largest = logits[static_cast<std::size_t>(ArgMaxToken(logits))];
  const double total = LogSumExp(logits, largest);
  const auto entry = [&](TokenId token) {
    return TokenLogprob{token, static_cast<float>(logits[static_cast<std::size_t>(token)] - total)};
  };
  PositionLogprobs result{entry(chosen), {}};
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    result.top.push_back(entry(order[static_cast<std::size_t>(i)]));
  }
  return result;
}

TokenId Candidates::At(double uniform) const {
  double sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += probabilities[i];
    if (uniform < sum) return tokens[i];
  }
  // Rounding left the sum a little below the uniform: the last token that can be drawn at all.
  std::size_t last = tokens.size() - 1;
  while (last > 0 && probabilities[last] == 0) --last;
  return tokens[last];
}

double Candidates::Of(TokenId token) const {
  const auto at = std::find(tokens.begin(), tokens.end(), token);
  return at == tokens.end() ? 0 : probabilities[static_cast<std::size_t>(at - tokens.begin())];
}

void Sampler::Adjust(const SamplingOptions& options, const TokenHistory& history,
                     std::span<float> logits) {
  for (const auto& [token, bias] : options.logit_bias) {
    logits[static_cast<std::size_t>(token)] += bias;
  }
  history.Penalize(logits);
}

/// Fills the candidates with the `count` best, best first.
void Sampler::KeepBest(std::span<const float> logits, std::size_t count) {
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != order_.end()) std::nth_element(order_.begin(), end, order_.end(), ByLogit{logits});
  std::sort(order_.begin(), end, ByLogit{logits});
  candidates_.tokens.assign(order_.begin(), end);
}

const Candidates& Sampler::Distribution(const SamplingOptions& options,
                                        std::span<const float> logits) {
  const std::size_t vocab = logits.size();
  const std::size_t count =
      options.top_k > 0 ? std::min(static_cast<std::size_t>(options.top_k), vocab) : vocab;
  if (count < vocab) {
    KeepBest(logits, count);
  } else {
    candidates_.tokens.resize(vocab);
    std::iota(candidates_.tokens.begin(), candidates_.tokens.end(), 0);
  }
  Softmax(logits, static_cast<double>(options.temperature), candidates_);
  if (options.top_p < 1) KeepTopP(options, logits);
  if (options.min_p > 0) {
    const double best =
        *std::max_element(candidates_.probabilities.begin(), candidates_.probabilities.end());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < candidates_.tokens.size(); ++i) {
      if (candidates_.probabilities[i] < static_cast<double>(options.min_p) * best) continue;
      candidates_.tokens[kept] = candidates_.tokens[i];
      candidates_.probabilities[kept++] = candidates_.probabilities[i];
    }
    Truncate(candidates_, kept);
  }
  return candidates_;
}

/// Keeps the smallest leading set that reaches top_p. Orders only as many candidates as it needs.
void Sampler::KeepTopP(const SamplingOptions& options, std::span<const float> logits) {
  std::vector<TokenId>& tokens = candidates_.tokens;
  std::vector<double>& p = candidates_.probabilities;
  order_.resize(tokens.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto before = [&](TokenId a, TokenId b) {
    return ByLogit{logits}(tokens[static_cast<std::size_t>(a)],
                           tokens[static_cast<std::size_t>(b)]);
  };
  constexpr std::size_t kFirstSort = 64;
  std::size_t sorted = 0;
  std::size_t kept = 0;
  double sum = 0;
  while (kept < order_.size() && sum < static_cast<double>(options.top_p)) {
    if (kept == sorted) {
      sorted = std::min(order_.size(), std::max(kFirstSort, 4 * sorted));
      std::partial_sort(order_.begin() + static_cast<std::ptrdiff_t>(kept),
                        order_.begin() + static_cast<std::ptrdiff_t>(sorted), order_.end(), before);
    }
    sum += p[static_cast<std::size_t>(order_[kept++])];
  }
  std::vector<TokenId> kept_tokens;
  std::vector<double> kept_p;
  for (std::size_t i = 0; i < kept; ++i) {
    kept_tokens.push_back(tokens[static_cast<std::size_t>(order_[i])]);
    kept_p.push_back(p[static_cast<std::size_t>(order_[i])]);
  }
  tokens = std::move(kept_tokens);
  p = std::move(kept_p);
  Truncate(candidates_, kept);
}

TokenId Sampler::Next(const SamplingOptions& options, std::span<const float> logits, int choice,
                      std::int64_t position) {
  if (options.temperature == 0) return ArgMaxToken(logits);
  return Distribution(options, logits).At(UniformAt(options.seed, choice, position, Draw::kToken));
}

TokenId Sampler::DrawResidual(const Candidates& p, const Candidates& q, double uniform) {
  for (std::size_t i = 0; i < q.tokens.size(); ++i) {
    const auto token = static_cast<std::size_t>(q.tokens[i]);
    if (token >= by_token_.size()) by_token_.resize(token + 1);
    by_token_[token] = q.probabilities[i];
  }
  residual_.tokens.clear();
  residual_.probabilities.clear();
  double sum = 0;
  for (std::size_t i = 0; i < p.tokens.size(); ++i) {
    const auto token = static_cast<std::size_t>(p.tokens[i]);
    const double excess = p.probabilities[i] - (token < by_token_.size() ? by_token_[token] : 0);
    if (excess <= 0) continue;
    residual_.tokens.push_back(p.tokens[i]);
    residual_.probabilities.push_back(excess);
    sum += excess;
  }
  for (const TokenId token : q.tokens) by_token_[static_cast<std::size_t>(token)] = 0;
  // p equals q up to rounding: then no draft is refused but by rounding, and p itself will do.
  if (residual_.tokens.empty()) return p.At(uniform);
  for (double& probability : residual_.probabilities) probability /= sum;
  return residual_.At(uniform);
}

}  // namespace kv8
