#include <algorithm>

#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"
#include "ops/ple_hash.h"

namespace kv8::reference {
namespace {

using Doubles = std::span<const double>;

// The token's table rows.
std::vector<Weight> LookUp(const PleConfig& config, const PleWeights& weights,
                           std::span<const TokenId> window) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(config.heads()));
  PleRowIds(weights.hash, window, ids);
  std::vector<Weight> rows;
  for (const std::int64_t id : ids) rows.push_back(TableRow(weights.shards, id));
  return rows;
}

// Their values, concatenated by head.
std::vector<double> Values(std::span<const Weight> rows) {
  std::vector<double> e;
  for (const Weight& row : rows) {
    for (std::int64_t d = 0; d < row.cols; ++d) e.push_back(WeightAt(row, 0, d));
  }
  return e;
}

// u of one token: v, gated per stream by how well the memory's key fits the residual.
std::vector<double> Gated(const PleWeights& weights, Doubles e, std::span<const float> streams,
                          int count, float eps) {
  const std::vector<double> key = Product(e, weights.key);
  const std::vector<double> v = Product(e, weights.value);
  const std::vector<double> kn = GroupedNorm(Doubles(key), weights.gain_key, count, eps);
  const std::vector<double> qn = GroupedNorm(streams, weights.gain_query, count, eps);
  std::vector<double> u(kn.size());
  for (std::size_t begin = 0; begin < u.size(); begin += v.size()) {
    double dot = 0;
    for (std::size_t d = 0; d < v.size(); ++d) dot += kn[begin + d] * qn[begin + d];
    dot /= std::sqrt(static_cast<double>(v.size()));
    const double root = std::sqrt(std::max(std::fabs(dot), 1e-6));
    const double gate = Sigmoid(dot == 0 ? 0.0 : std::copysign(root, dot));
    for (std::size_t d = 0; d < v.size(); ++d) u[begin + d] = gate * v[d];
  }
  return u;
}

// silu of the dilated convolution that ends with `newest`; `state` holds the columns before it.
double Convolve(std::span<const float> taps, std::span<const float> state, std::size_t width,
                std::size_t channel, std::size_t dilation, double newest) {
  double sum = static_cast<double>(taps.back()) * newest;
  for (std::size_t j = 0; j + 1 < taps.size(); ++j) {
    sum +=
        static_cast<double>(taps[j]) * static_cast<double>(state[j * dilation * width + channel]);
  }
  return Silu(sum);
}

// Drops the oldest `by` values and appends `newest`.
template <class T, class U>
void Push(std::span<T> state, std::span<const U> newest) {
  std::copy(state.begin() + static_cast<std::ptrdiff_t>(newest.size()), state.end(), state.begin());
  std::transform(newest.begin(), newest.end(),
                 state.end() - static_cast<std::ptrdiff_t>(newest.size()),
                 [](U value) { return static_cast<T>(value); });
}

void Token(const PleConfig& config, const PleWeights& weights, TokenId id,
           std::span<const Weight> table_rows, const PleSlice& slice, int count, float eps,
           std::span<float> streams) {
  std::vector<TokenId> window(slice.context.begin(), slice.context.end());
  window.push_back(id);
  Push(slice.context, std::span<const TokenId>(&id, 1));
  const std::vector<double> e =
      Values(table_rows.empty() ? LookUp(config, weights, window)
                                : std::vector<Weight>(table_rows.begin(), table_rows.end()));
  const std::vector<double> u = Gated(weights, e, streams, count, eps);
  const std::vector<double> un = GroupedNorm(Doubles(u), weights.gain_conv, count, eps);
  const auto kernel = static_cast<std::size_t>(config.conv_kernel);
  for (std::size_t c = 0; c < u.size(); ++c) {
    const std::span<const float> taps{weights.conv.data() + c * kernel, kernel};
    const double f = Convolve(taps, slice.conv_state, u.size(), c,
                              static_cast<std::size_t>(config.ngram_size), un[c]);
    streams[c] = static_cast<float>(static_cast<double>(streams[c]) + u[c] + f);
  }
  Push(slice.conv_state, Doubles(un));
}

}  // namespace

void Ple(const OpContext&, const PleConfig& config, const PleWeights& weights,
         std::span<const TokenId> ids, std::span<const Weight> table_rows,
         std::span<const PleSlice> slices, int stream_count, float eps, Matrix streams) {
  const std::size_t heads = table_rows.size() / std::max<std::size_t>(ids.size(), 1);
  for (const PleSlice& slice : slices) {
    for (std::int64_t t = slice.row_begin; t < slice.row_begin + slice.row_count; ++t) {
      const auto row = static_cast<std::size_t>(t);
      Token(config, weights, ids[row], table_rows.subspan(row * heads, heads), slice, stream_count,
            eps, streams.row(t));
    }
  }
}

}  // namespace kv8::reference
