// Oracles of Gated DeltaNet, in double: the recurrence of ops/gdn.h and its chunked form.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {
namespace {

std::size_t Index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

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

/// What one value head needs of its rows.
struct HeadRows {
  std::int64_t rows;
  int key_dim, value_dim;
  std::vector<double> q, k;         // [rows,key_dim], normalised
  std::vector<double> v;            // [rows,value_dim]
  std::vector<double> gamma, beta;  // [rows]

  double QueryKey(std::int64_t i, std::int64_t j) const { return DotKey(q, i, j); }
  double KeyKey(std::int64_t i, std::int64_t j) const { return DotKey(k, i, j); }
  /// sum_d state[d,column] * x[row,d]
  double Read(const double* state, const std::vector<double>& x, std::int64_t row,
              int column) const {
    double sum = 0;
    for (int d = 0; d < key_dim; ++d) {
      sum += state[d * value_dim + column] * x[static_cast<std::size_t>(row * key_dim + d)];
    }
    return sum;
  }

 private:
  double DotKey(const std::vector<double>& x, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (int d = 0; d < key_dim; ++d) {
      sum += x[static_cast<std::size_t>(i * key_dim + d)] *
             k[static_cast<std::size_t>(j * key_dim + d)];
    }
    return sum;
  }
};

/// Updates S [key_dim,value_dim] and returns o [rows,value_dim].
using HeadFn = std::vector<double>(const HeadRows&, double* state);

std::vector<double> RunRecurrence(const HeadRows& in, double* state) {
  const int dk = in.key_dim, dv = in.value_dim;
  std::vector<double> o;
  for (std::int64_t t = 0; t < in.rows; ++t) {
    const auto row = static_cast<std::size_t>(t);
    const double decay = std::exp(in.gamma[row]);
    for (int i = 0; i < dk * dv; ++i) state[i] *= decay;
    for (int j = 0; j < dv; ++j) {
      const double v = in.v[row * static_cast<std::size_t>(dv) + static_cast<std::size_t>(j)];
      const double u = in.beta[row] * (v - in.Read(state, in.k, t, j));
      for (int i = 0; i < dk; ++i) {
        state[i * dv + j] +=
            in.k[row * static_cast<std::size_t>(dk) + static_cast<std::size_t>(i)] * u;
      }
      o.push_back(in.Read(state, in.q, t, j));
    }
  }
  return o;
}

/// S <- e^G_last S + sum_j D_last,j k_j V_j^T
void CarryState(const HeadRows& in, std::int64_t begin, std::int64_t end, std::span<const double> g,
                std::span<const double> values, double* state) {
  const int dk = in.key_dim, dv = in.value_dim;
  const double last = g[Index(end - 1)];
  for (int d = 0; d < dk * dv; ++d) state[d] *= std::exp(last);
  for (std::int64_t j = begin; j < end; ++j) {
    const double decay = std::exp(last - g[Index(j)]);
    for (int d = 0; d < dk; ++d) {
      for (int c = 0; c < dv; ++c) {
        state[d * dv + c] += decay * in.k[Index(j * dk + d)] * values[Index(j * dv + c)];
      }
    }
  }
}

/// Rows [begin, end) at once. With G the running sum of gamma and D_ij = exp(G_i - G_j), j <= i:
///   V_i = beta_i (v_i - e^G_i S^T k_i - sum_{j<i} D_ij (k_i . k_j) V_j)
///   o_i = e^G_i S^T q_i + sum_{j<=i} D_ij (q_i . k_j) V_j
/// and CarryState.
void RunChunk(const HeadRows& in, std::int64_t begin, std::int64_t end, double* state,
              std::vector<double>& o) {
  const int dv = in.value_dim;
  std::vector<double> g(Index(end), 0.0);
  for (std::int64_t i = begin; i < end; ++i) {
    g[Index(i)] = (i > begin ? g[Index(i - 1)] : 0.0) + in.gamma[Index(i)];
  }
  std::vector<double> values(Index(end * dv)), key_weight(Index(end)), query_weight(Index(end));
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = begin; j <= i; ++j) {
      const double decay = std::exp(g[Index(i)] - g[Index(j)]);
      key_weight[Index(j)] = decay * in.KeyKey(i, j);
      query_weight[Index(j)] = decay * in.QueryKey(i, j);
    }
    for (int c = 0; c < dv; ++c) {
      double read = std::exp(g[Index(i)]) * in.Read(state, in.k, i, c);
      double out = std::exp(g[Index(i)]) * in.Read(state, in.q, i, c);
      for (std::int64_t j = begin; j < i; ++j) {
        read += key_weight[Index(j)] * values[Index(j * dv + c)];
        out += query_weight[Index(j)] * values[Index(j * dv + c)];
      }
      const double value = in.beta[Index(i)] * (in.v[Index(i * dv + c)] - read);
      values[Index(i * dv + c)] = value;
      o.push_back(out + query_weight[Index(i)] * value);
    }
  }
  CarryState(in, begin, end, g, values, state);
}

std::vector<double> RunChunks(const HeadRows& in, double* state) {
  std::vector<double> o;
  for (std::int64_t t = 0; t < in.rows; t += kGdnChunk) {
    RunChunk(in, t, std::min(t + kGdnChunk, in.rows), state, o);
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

/// Convolved, normalised and gated inputs of one value head.
HeadRows GatherHead(const GdnConfig& config, const GdnWeights& weights, const GdnInputs& in,
                    const GdnSlice& slice, int head,
                    std::span<const std::vector<double>> convolved) {
  const int dk = config.key_dim, dv = config.value_dim;
  const int keys = config.key_heads * dk;
  const int key_head = head / (config.value_heads / config.key_heads);
  const auto h = static_cast<std::size_t>(head);
  HeadRows rows{slice.row_count, dk, dv, {}, {}, {}, {}, {}};
  for (std::int64_t t = 0; t < slice.row_count; ++t) {
    const double* const c = convolved[static_cast<std::size_t>(t)].data();
    const double* const q = c + key_head * dk;
    rows.q.insert(rows.q.end(), q, q + dk);
    rows.k.insert(rows.k.end(), q + keys, q + keys + dk);
    rows.v.insert(rows.v.end(), c + 2 * keys + head * dv, c + 2 * keys + (head + 1) * dv);
    L2Normalize(rows.q.data() + t * dk, dk, 1.0 / std::sqrt(double(dk)));
    L2Normalize(rows.k.data() + t * dk, dk, 1.0);
    const std::int64_t row = slice.row_begin + t;
    rows.gamma.push_back(weights.decay[h] *
                         Softplus(double{in.a.row(row)[h]} + weights.dt_bias[h]));
    rows.beta.push_back(Sigmoid(in.b.row(row)[h]));
  }
  return rows;
}

void RunSlice(const GdnConfig& config, const GdnWeights& weights, const GdnInputs& in,
              const GdnSlice& slice, float eps, Matrix out, HeadFn* run) {
  const int dk = config.key_dim, dv = config.value_dim;
  std::vector<std::vector<double>> convolved;
  for (std::int64_t t = 0; t < slice.row_count; ++t) {
    convolved.push_back(Convolve(config, weights, in, slice, t));
  }
  std::vector<double> states(slice.state.begin(), slice.state.end());
  for (int h = 0; h < config.value_heads; ++h) {
    const HeadRows rows = GatherHead(config, weights, in, slice, h, convolved);
    const std::vector<double> o = run(rows, states.data() + h * dk * dv);
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t row = slice.row_begin + t;
      NormAndGate({o.data() + t * dv, static_cast<std::size_t>(dv)}, weights, eps,
                  in.z.row(row).data() + h * dv, out.row(row).data() + h * dv);
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) slice.state[i] = static_cast<float>(states[i]);
  UpdateConvState(config, in, slice);
}

}  // namespace

void GdnDecode(const OpContext&, const GdnConfig& config, const GdnWeights& weights,
               const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  for (const GdnSlice& slice : slices) {
    RunSlice(config, weights, in, slice, eps, out, RunRecurrence);
  }
}

void GdnPrefill(const OpContext&, const GdnConfig& config, const GdnWeights& weights,
                const GdnInputs& in, std::span<const GdnSlice> slices, float eps, Matrix out) {
  for (const GdnSlice& slice : slices) {
    RunSlice(config, weights, in, slice, eps, out, RunChunks);
  }
}

}  // namespace kv8::reference
