#include "model/cpu/workspace.h"

#include <algorithm>

namespace kv8 {

std::array<Workspace::Field, Workspace::kFields> Workspace::Fields() {
  const GdnConfig& g = config_.gdn;
  const QsaConfig& q = config_.qsa;
  const std::int64_t hidden = config_.hidden;
  const std::int64_t values = static_cast<std::int64_t>(g.value_heads) * g.value_dim;
  const std::int64_t queries = static_cast<std::int64_t>(q.query_heads) * q.head_dim;
  const std::int64_t keys = static_cast<std::int64_t>(q.kv_heads) * q.head_dim;
  const std::int64_t index = static_cast<std::int64_t>(q.index_heads) * q.index_dim;
  // The narrow ones last, so that rows of the others begin at cache lines where widths allow it.
  return {Field{&x, hidden},
          {&y, hidden},
          {&qkv, g.conv_channels()},
          {&z, values},
          {&query_gate, 2 * queries},
          {&query, queries},
          {&key, keys},
          {&value, keys},
          {&index_qk, index + q.index_dim},
          {&index_query, index},
          {&core, std::max(values, queries)},
          {&draft_hidden, config_.streams * hidden},
          {&draft_embedding, hidden},
          {&inject, config_.streams},
          {&b, g.value_heads},
          {&a, g.value_heads}};
}

void Workspace::Resize(std::int64_t rows) {
  const auto fields = Fields();
  std::int64_t cols = 0;
  for (const Field& field : fields) cols += field.cols;
  const std::int64_t chosen = rows * config_.qsa.budget_selection_blocks;
  if (floats_.size() < static_cast<std::size_t>(rows * cols)) {
    floats_.resize(static_cast<std::size_t>(rows * cols));
    selected_.resize(static_cast<std::size_t>(chosen + rows));
  }
  float* next = floats_.data();
  for (const Field& field : fields) {
    *field.view = Matrix(next, rows, field.cols);
    next += rows * field.cols;
  }
  positions.resize(static_cast<std::size_t>(rows));
  const std::span<std::int32_t> all(selected_);
  selection.blocks = all.first(static_cast<std::size_t>(chosen));
  selection.counts = all.subspan(static_cast<std::size_t>(chosen), static_cast<std::size_t>(rows));
}

std::int64_t Workspace::bytes() const {
  return static_cast<std::int64_t>(floats_.capacity() * sizeof(float) +
                                   selected_.capacity() * sizeof(std::int32_t) +
                                   positions.capacity() * sizeof(std::int64_t));
}

std::int64_t Workspace::PlannedBytes(const ModelSpec& config, std::int64_t rows) {
  Workspace empty(config);
  std::int64_t cols = 0;
  for (const Field& field : empty.Fields()) cols += field.cols;
  const auto of = [rows](std::int64_t count, std::size_t size) {
    return rows * count * static_cast<std::int64_t>(size);
  };
  return of(cols, sizeof(float)) +
         of(config.qsa.budget_selection_blocks + 1, sizeof(std::int32_t)) +
         of(1, sizeof(std::int64_t));
}

}  // namespace kv8
