// Oracle of sparse attention: two-pass softmax in double over the decoded elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {
namespace {

/// Positions that a row at `position` attends to, ascending: its selection blocks, then the open
/// tail.
std::vector<std::int64_t> SelectedTokens(const QsaConfig& config, const BlockSelection& selection,
                                         std::size_t row, std::int64_t position) {
  std::vector<std::int64_t> tokens;
  const auto count = static_cast<std::size_t>(selection.counts[row]);
  const auto first = row * static_cast<std::size_t>(config.budget_selection_blocks);
  for (const std::int32_t block : selection.blocks.subspan(first, count)) {
    for (std::int64_t i = 0; i < config.selection_block_tokens; ++i) {
      tokens.push_back(std::int64_t{block} * config.selection_block_tokens + i);
    }
  }
  const std::int64_t tail =
      (position + 1) / config.selection_block_tokens * config.selection_block_tokens;
  for (std::int64_t token = tail; token <= position; ++token) tokens.push_back(token);
  return tokens;
}

/// softmax(q . K * factor) over the tokens.
std::vector<double> Probabilities(const KvPages& pages, std::int64_t kv_head,
                                  std::span<const std::int64_t> tokens, const float* q) {
  const KvLayout& layout = pages.layout;
  const double factor = double{pages.k_scale} / std::sqrt(double(layout.head_dim));
  std::vector<double> p;
  for (const std::int64_t token : tokens) {
    const std::byte* const key = pages.At(KvSide::kKey, kv_head, token);
    double dot = 0;
    for (std::int64_t i = 0; i < layout.head_dim; ++i) {
      dot += double{q[i]} * LoadKvElement(layout.dtype, key, i);
    }
    p.push_back(dot * factor);
  }
  double max = -std::numeric_limits<double>::infinity();
  for (const double score : p) max = std::max(max, score);
  double sum = 0;
  for (double& score : p) sum += score = std::exp(score - max);
  for (double& score : p) score /= sum;
  return p;
}

void AttendHead(const KvPages& pages, std::int64_t kv_head, std::span<const std::int64_t> tokens,
                const float* q, const float* gate, float* out) {
  const KvLayout& layout = pages.layout;
  const std::vector<double> p = Probabilities(pages, kv_head, tokens, q);
  std::vector<double> sum(static_cast<std::size_t>(layout.head_dim), 0.0);
  for (std::size_t j = 0; j < tokens.size(); ++j) {
    const std::byte* const value = pages.At(KvSide::kValue, kv_head, tokens[j]);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += p[j] * LoadKvElement(layout.dtype, value, static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    out[i] = static_cast<float>(sum[i] * pages.v_scale * Sigmoid(gate[i]));
  }
}

}  // namespace

void SparseAttention(const OpContext&, const QsaConfig& config, ConstMatrix q, ConstMatrix gate,
                     std::int64_t gate_head_stride, std::span<const QsaSlice> slices,
                     const BlockSelection& selection, Matrix out) {
  const int heads_per_kv = config.query_heads / config.kv_heads;
  for (const QsaSlice& slice : slices) {
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t row = slice.row_begin + t;
      const std::vector<std::int64_t> tokens = SelectedTokens(
          config, selection, static_cast<std::size_t>(row), slice.first_position + t);
      for (int h = 0; h < config.query_heads; ++h) {
        AttendHead(slice.kv, h / heads_per_kv, tokens, q.row(row).data() + h * config.head_dim,
                   gate.data + row * gate.stride + h * gate_head_stride,
                   out.row(row).data() + h * config.head_dim);
      }
    }
  }
}

}  // namespace kv8::reference
