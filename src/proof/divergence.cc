#include "proof/divergence.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kv8 {

double KlLowerBound(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  std::map<TokenId, double> of_b;
  for (const TokenLogprob& entry : b) of_b[entry.token] = entry.logprob;
  double divergence = 0;
  double rest_a = 1;
  double rest_b = 1;
  for (const TokenLogprob& entry : a) {
    const auto found = of_b.find(entry.token);
    if (found == of_b.end()) continue;
    const double p = std::exp(static_cast<double>(entry.logprob));
    divergence += p * (static_cast<double>(entry.logprob) - found->second);
    rest_a -= p;
    rest_b -= std::exp(found->second);
  }
  // Where both lists hold nearly everything, the rest is rounding: below FP32's it says nothing.
  constexpr double kRounding = 1e-6;
  if (rest_a > kRounding) divergence += rest_a * std::log(rest_a / std::max(rest_b, kRounding));
  return std::max(0.0, divergence);
}

}  // namespace kv8
