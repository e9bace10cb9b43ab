#include <algorithm>

#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {
namespace {

using Doubles = std::span<const double>;

// The k largest logits, ascending expert order; ties go to the lower expert.
std::vector<std::int64_t> ChooseExperts(Doubles logits, int k) {
  std::vector<bool> taken(logits.size());
  std::vector<std::int64_t> chosen;
  while (static_cast<int>(chosen.size()) < k) {
    std::size_t best = logits.size();
    for (std::size_t e = 0; e < logits.size(); ++e) {
      if (!taken[e] && (best == logits.size() || logits[e] > logits[best])) best = e;
    }
    taken[best] = true;
    chosen.push_back(static_cast<std::int64_t>(best));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Softmax over the chosen experts only: equal to the softmax over all, renormalised.
std::vector<double> Probabilities(Doubles logits, std::span<const std::int64_t> chosen) {
  double top = -HUGE_VAL;
  for (const std::int64_t e : chosen) top = std::max(top, logits[static_cast<std::size_t>(e)]);
  std::vector<double> p;
  double sum = 0;
  for (const std::int64_t e : chosen) {
    p.push_back(std::exp(logits[static_cast<std::size_t>(e)] - top));
    sum += p.back();
  }
  for (double& value : p) value /= sum;
  return p;
}

// down(silu(gate x) * up x), added to y times `factor`.
void AddExpert(std::span<const float> x, const Weight& gate, const Weight& up, const Weight& down,
               double factor, std::span<double> y) {
  std::vector<double> h = Product(x, gate);
  const std::vector<double> u = Product(x, up);
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = Silu(h[i]) * u[i];
  const std::vector<double> out = Product(Doubles(h), down);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * out[i];
}

}  // namespace

void Moe(const OpContext&, const MoeConfig& config, const MoeWeights& weights, ConstMatrix x,
         Matrix out) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const std::span<const float> in = x.row(t);
    const std::vector<double> logits = Product(in, weights.router);
    const std::vector<std::int64_t> chosen = ChooseExperts(logits, config.experts_per_token);
    const std::vector<double> p = Probabilities(logits, chosen);
    std::vector<double> y(in.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto e = static_cast<std::size_t>(chosen[i]);
      AddExpert(in, weights.gate[e], weights.up[e], weights.down[e], p[i], y);
    }
    AddExpert(in, weights.shared_gate_proj, weights.shared_up_proj, weights.shared_down_proj,
              Sigmoid(DotRow(in, weights.shared_gate, 0)), y);
    for (std::size_t i = 0; i < y.size(); ++i) out.row(t)[i] = static_cast<float>(y[i]);
  }
}

}  // namespace kv8::reference
