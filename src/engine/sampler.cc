#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
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

/// In the order of base/token_choice.h.
bool Leads(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

std::uint64_t WeightOf(std::span<const Candidate> candidates) {
  std::uint64_t sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

/// Puts the first `count` first, in no order.
void Separate(std::span<Candidate> candidates, std::size_t count) {
  if (count >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                   candidates.end(), Leads);
}

/// How few leading ones weigh `need`, which is not 0 nor more than all do; they stand first then,
/// the last of them as the last. Quickselect by weight: one pass to split, and on with one side;
/// logits made against the pivots, which a request's biases can be, are sorted after some passes.
std::size_t Reach(std::span<Candidate> candidates, std::uint64_t need) {
  std::size_t reached = 0;
  for (int passes = 2 * std::bit_width(candidates.size()); passes > 0; --passes) {
    std::swap(candidates[candidates.size() / 2], candidates.back());
    const Candidate pivot = candidates.back();
    std::size_t split = 0;
    std::uint64_t weight = 0;  // of those before the split, which lead the pivot
    for (Candidate& candidate : candidates) {
      if (!Leads(candidate, pivot)) continue;
      weight += candidate.weight;
      std::swap(candidate, candidates[split++]);
    }
    std::swap(candidates[split], candidates.back());
    if (weight >= need) {
      candidates = candidates.first(split);
    } else if (weight + pivot.weight >= need) {
      return reached + split + 1;
    } else {
      need -= weight + pivot.weight;
      reached += split + 1;
      candidates = candidates.subspan(split + 1);
    }
  }
  std::sort(candidates.begin(), candidates.end(), Leads);
  std::size_t i = 0;
  for (; candidates[i].weight < need; ++i) need -= candidates[i].weight;
  return reached + i + 1;
}

}  // namespace

std::uint64_t RandomAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw) {
  const auto where = (static_cast<std::uint64_t>(choice) << 32) | static_cast<std::uint32_t>(draw);
  return Scramble(Scramble(Scramble(seed) ^ where) ^ static_cast<std::uint64_t>(position));
}

double UniformAt(std::uint64_t seed, int choice, std::int64_t position, Draw draw) {
  return static_cast<double>(RandomAt(seed, choice, position, draw) >> 11) * 0x1.0p-53;
}

ChoiceRule RuleOf(const SamplingOptions& options, std::uint64_t random) {
  constexpr double kOctave = 1 << kDistanceBits;
  ChoiceRule rule{
      .top_p = 0, .random = random, .scale = 0, .top_k = options.top_k, .max_distance = kFarthest};
  if (options.temperature == 0) return rule;
  const double scale = kOctave / (static_cast<double>(options.temperature) * std::numbers::ln2);
  rule.scale =
      static_cast<float>(std::min(scale, static_cast<double>(std::numeric_limits<float>::max())));
  if (options.top_p < 1) {
    rule.top_p = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(options.top_p) * 0x1.0p64));
  }
  if (options.min_p > 0) {
    const double distance = -std::log2(static_cast<double>(options.min_p)) * kOctave;
    if (distance < kFarthest) rule.max_distance = static_cast<std::uint32_t>(distance);
  }
  return rule;
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
  // The first piece that holds the largest is found lane by lane, the place in it one by one.
  constexpr std::size_t kPiece = 16 * kLanes;
  float largest = -std::numeric_limits<float>::infinity();
  std::size_t best_piece = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kPiece) {
    const float in_piece = Largest(logits.subspan(begin, std::min(kPiece, logits.size() - begin)));
    if (in_piece > largest) {
      largest = in_piece;
      best_piece = begin;
    }
  }
  const auto piece = logits.subspan(best_piece, std::min(kPiece, logits.size() - best_piece));
  const auto found = std::find(piece.begin(), piece.end(), largest);
  if (found == piece.end()) return 0;  // nothing but NaN
  return static_cast<TokenId>(best_piece + static_cast<std::size_t>(found - piece.begin()));
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

TokenId Candidates::At(std::uint64_t random) {
  return tokens[Reach(tokens, ShareOf(total, random) + 1) - 1].token;
}

double Candidates::Of(TokenId token) const {
  const auto at = std::ranges::find(tokens, token, &Candidate::token);
  return at == tokens.end() ? 0 : static_cast<double>(at->weight) / static_cast<double>(total);
}

void Sampler::Adjust(const SamplingOptions& options, const TokenHistory& history,
                     std::span<float> logits) {
  for (const auto& [token, bias] : options.logit_bias) {
    logits[static_cast<std::size_t>(token)] += bias;
  }
  history.Penalize(logits);
}

Candidates& Sampler::Distribution(const SamplingOptions& options, std::span<const float> logits) {
  const ChoiceRule rule = RuleOf(options, 0);
  const float largest = Largest(logits);
  std::vector<Candidate>& tokens = candidates_.tokens;
  tokens.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::uint64_t weight = TokenWeight(TokenDistance(largest, logits[i], rule.scale));
    if (weight > 0) tokens.push_back({static_cast<TokenId>(i), logits[i], weight});
  }
  if (rule.CutsAt(tokens.size())) {
    Separate(tokens, static_cast<std::size_t>(rule.top_k));
    tokens.resize(static_cast<std::size_t>(rule.top_k));
  }
  if (rule.top_p != 0) {
    tokens.resize(Reach(tokens, WeightToReach(WeightOf(tokens), rule.top_p)));
  }
  if (rule.max_distance < kFarthest) {
    std::erase_if(tokens, [&](const Candidate& candidate) {
      return TokenDistance(largest, candidate.logit, rule.scale) > rule.max_distance;
    });
  }
  candidates_.total = WeightOf(tokens);
  return candidates_;
}

TokenId Sampler::Next(const SamplingOptions& options, std::span<const float> logits, int choice,
                      std::int64_t position) {
  if (options.temperature == 0) return ArgMaxToken(logits);
  return Distribution(options, logits).At(RandomAt(options.seed, choice, position, Draw::kToken));
}

TokenId Sampler::DrawResidual(Candidates& p, const Candidates& q, std::uint64_t random) {
  constexpr double kWhole = 0x1.0p60;
  const auto share = [](const Candidates& all, const Candidate& one) {
    return static_cast<double>(one.weight) / static_cast<double>(all.total);
  };
  for (const Candidate& candidate : q.tokens) {
    const auto token = static_cast<std::size_t>(candidate.token);
    if (token >= by_token_.size()) by_token_.resize(token + 1);
    by_token_[token] = share(q, candidate);
  }
  residual_.tokens.clear();
  for (const Candidate& candidate : p.tokens) {
    const auto token = static_cast<std::size_t>(candidate.token);
    const double excess = share(p, candidate) - (token < by_token_.size() ? by_token_[token] : 0);
    const auto weight = static_cast<std::uint64_t>(std::max(0.0, excess) * kWhole);
    if (weight > 0) residual_.tokens.push_back({candidate.token, candidate.logit, weight});
  }
  for (const Candidate& c : q.tokens) by_token_[static_cast<std::size_t>(c.token)] = 0;
  // p equals q up to rounding: then no draft is refused but by rounding, and p itself will do.
  if (residual_.tokens.empty()) return p.At(random);
  residual_.total = WeightOf(residual_.tokens);
  return residual_.At(random);
}

}  // namespace kv8
