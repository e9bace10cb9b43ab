// Oracle of Gated DeltaNet: the recurrence of ops/gdn.h, in double.
#include <cmath>
#include <vector>

#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {
namespace {

constexpr double kL2Epsilon = 1e-6;

/// log(1 + e^x) without overflow.
double Softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

/// Raw convolution input of row `t` of the slice; the rows before it are in the state.
float RawInput(const GdnInputs& in, const GdnSlice& slice, int history, std::int64_t t,
               std::int64_t channel) {
  if (t >= 0) return in.qkv.row(slice.row_begin + t)[static_cast<std::size_t>(channel)];
  return slice.conv_state[static_cast<std::size_t>((history + t) * in.qkv.cols + channel)];
}

std::vector<double> Convolve(const GdnConfig& config, const GdnWeights& weights,
                             const GdnInputs& in, const GdnSlice& slice, std::int64_t t) {
  const int history = config.conv_kernel - 1;
  std::vector<double> c(static_cast<std::size_t>(config.conv_channels()));
  for (std::int64_t channel = 0; channel < config.conv_channels(); ++channel) {
    double sum = 0;
    for (int j = 0; j < config.conv_kernel; ++j) {
      const auto w = static_cast<std::size_t>(channel * config.conv_kernel + j);
      sum += double{weights.conv[w]} * RawInput(in, slice, history, t - history + j, channel);
    }
    c[static_cast<std::size_t>(channel)] = Silu(sum);
  }
  return c;
}

void UpdateConvState(const GdnConfig& config, const GdnInputs& in, const GdnSlice& slice) {
  const int history = config.conv_kernel - 1;
  for (int j = 0; j < history; ++j) {  // ascending: slot j reads only slots after it
    for (std::int64_t channel = 0; channel < in.qkv.cols; ++channel) {
      slice.conv_state[static_cast<std::size_t>(j * in.qkv.cols + channel)] =
          RawInput(in, slice, history, slice.row_count - history + j, channel);
    }
  }
}

void L2Normalize(double* x, int dim, double factor) {
  double squares = 0;
  for (int i = 0; i < dim; ++i) squares += x[i] * x[i];
  const double inverse = factor / std::sqrt(squares + kL2Epsilon);
  for (int i = 0; i < dim; ++i) x[i] *= inverse;
}

/// One token of one head: updates S [key_dim,value_dim] and returns o [value_dim].
std::vector<double> DeltaRule(const GdnConfig& config, double* state, const double* q,
                              const double* k, const double* v, double decay, double beta) {
  const int dk = config.key_dim, dv = config.value_dim;
  std::vector<double> o(static_cast<std::size_t>(dv), 0.0);
  for (int i = 0; i < dk * dv; ++i) state[i] *= decay;
  for (int j = 0; j < dv; ++j) {
    double read = 0;
    for (int i = 0; i < dk; ++i) read += state[i * dv + j] * k[i];
    const double u = beta * (v[j] - read);
    for (int i = 0; i < dk; ++i) {
      state[i * dv + j] += k[i] * u;
      o[static_cast<std::size_t>(j)] += state[i * dv + j] * q[i];
    }
  }
  return o;
}

void NormAndGate(std::span<const double> o, const GdnWeights& weights, float eps, const float* z,
                 float* out) {
  double squares = 0;
  for (const double value : o) squares += value * value;
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(o.size()) + double{eps});
  for (std::size_t i = 0; i < o.size(); ++i) {
    out[i] = static_cast<float>(weights.norm[i] * o[i] * inverse * Sigmoid(z[i]));
  }
}

void RunSlice(const GdnConfig& config, const GdnWeights& weights, const GdnInputs& in,
              const GdnSlice& slice, float eps, Matrix out) {
  const int dk = config.key_dim, dv = config.value_dim;
  std::vector<double> states(slice.state.begin(), slice.state.end());
  for (std::int64_t t = 0; t < slice.row_count; ++t) {
    const std::int64_t row = slice.row_begin + t;
    std::vector<double> c = Convolve(config, weights, in, slice, t);
    double* const q = c.data();
    double* const k = q + config.key_heads * dk;
    const double* const v = k + config.key_heads * dk;
    for (int h = 0; h < config.key_heads; ++h) {
      L2Normalize(q + h * dk, dk, 1.0 / std::sqrt(double(dk)));
      L2Normalize(k + h * dk, dk, 1.0);
    }
    for (int h = 0; h < config.value_heads; ++h) {
      const auto head = static_cast<std::size_t>(h);
      const int key_head = h / (config.value_heads / config.key_heads);
      const double gamma =
          weights.decay[head] * Softplus(double{in.a.row(row)[head]} + weights.dt_bias[head]);
      const std::vector<double> o =
          DeltaRule(config, states.data() + h * dk * dv, q + key_head * dk, k + key_head * dk,
                    v + h * dv, std::exp(gamma), Sigmoid(in.b.row(row)[head]));
      NormAndGate(o, weights, eps, in.z.row(row).data() + h * dv, out.row(row).data() + h * dv);
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) slice.state[i] = static_cast<float>(states[i]);
  UpdateConvState(config, in, slice);
}

}  // namespace

void GdnDecode(const OpContext&, const GdnConfig& config, const GdnWeights& weights,
               const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  for (const GdnSlice& slice : slices) RunSlice(config, weights, in, slice, eps, out);
}

/// The oracle has one form: the chunked one is the same function of its inputs.
void GdnPrefill(const OpContext& ctx, const GdnConfig& config, const GdnWeights& weights,
                const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  GdnDecode(ctx, config, weights, in, slices, eps, out);
}

}  // namespace kv8::reference
