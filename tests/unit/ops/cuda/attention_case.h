// What the tests of both kernels of sparse attention work on.
#pragma once

#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "unit/ops/cuda/paged_batch.h"

namespace kv8::cuda {

struct AttentionShape {
  int query_heads, kv_heads, head_dim, budget;
};

inline QsaConfig AttentionConfig(const AttentionShape& shape) {
  QsaConfig config;
  config.query_heads = shape.query_heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.index_dim = 64;
  config.selection_block_tokens = 4;
  config.budget_selection_blocks = shape.budget;
  return config;
}

/// A batch whose rows each have a random selection, of which `kept` percent are the row before's;
/// all that no row selects is poison.
struct AttentionCase {
  AttentionCase(const AttentionShape& shape, KvDType dtype, std::vector<RowsOf> sequences,
                int kept = 0)
      : batch(AttentionConfig(shape), dtype, std::move(sequences)),
        width(std::int64_t{shape.query_heads} * shape.head_dim),
        q(RandomValues(batch.rows() * width, 11, 2.0f)),
        gate(RandomValues(batch.rows() * 2 * width, 12)),
        blocks(static_cast<std::size_t>(batch.rows() * shape.budget), -1),
        counts(static_cast<std::size_t>(batch.rows())) {
    std::mt19937 engine(5);
    for (std::size_t row = 0; row < counts.size(); ++row) Select(row, kept, engine);
  }

  void Select(std::size_t row, int kept, std::mt19937& engine) {
    const std::int64_t position = batch.row_position[row];
    const auto sequence = static_cast<std::size_t>(batch.row_sequence[row]);
    const std::int64_t complete = (position + 1) / 4;
    const std::int64_t count =
        std::min<std::int64_t>(complete, batch.config.budget_selection_blocks);
    std::vector<std::int32_t> all(static_cast<std::size_t>(complete));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), engine);
    if (row > 0 && batch.row_sequence[row - 1] == batch.row_sequence[row]) {
      const std::int32_t* const before = Selection(row - 1);
      std::stable_partition(all.begin(), all.end(), [&](std::int32_t block) {
        return std::binary_search(before, before + counts[row - 1], block) &&
               static_cast<int>(engine() % 100) < kept;
      });
    }
    std::sort(all.begin(), all.begin() + count);
    std::copy_n(
        all.begin(), count,
        blocks.begin() + static_cast<std::int64_t>(row) * batch.config.budget_selection_blocks);
    counts[row] = static_cast<std::int32_t>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      for (int j = 0; j < 4; ++j) {
        batch.PutToken(sequence, std::int64_t{all[static_cast<std::size_t>(i)]} * 4 + j);
      }
    }
    for (std::int64_t p = complete * 4; p <= position; ++p) batch.PutToken(sequence, p);
  }

  std::vector<float> Expected() {
    std::vector<float> out(q.size());
    ThreadPool pool(1);
    const std::vector<QsaSlice> slices = batch.Slices();
    reference::SparseAttention(
        {pool}, batch.config, ConstMatrix(q.data(), batch.rows(), width),
        ConstMatrix(gate.data() + batch.config.head_dim, batch.rows(), width, 2 * width),
        2 * batch.config.head_dim, slices, {blocks, counts},
        Matrix(out.data(), batch.rows(), width));
    return out;
  }

  const std::int32_t* Selection(std::size_t row) const {
    return blocks.data() + static_cast<std::int64_t>(row) * batch.config.budget_selection_blocks;
  }

  PagedBatch batch;
  std::int64_t width;
  std::vector<float> q, gate;
  std::vector<std::int32_t> blocks, counts;
};

/// K and V of the largest code, queries beyond FP16, gates wide open.
inline AttentionCase CaseOfLargest(RowsOf rows) {
  AttentionCase test({6, 1, 64, 16}, KvDType::kE4M3, {rows});
  std::fill(test.batch.kv_pool.begin(), test.batch.kv_pool.end(), std::byte{kE4M3MaxCode});
  std::fill(test.q.begin(), test.q.end(), 1e6f);
  std::fill(test.gate.begin(), test.gate.end(), 100.0f);
  test.batch.k_scale = 1.0f;
  test.batch.v_scale = 0.25f;
  return test;
}
inline constexpr float kOutputOfLargest = 112.0f;  // 448 * v_scale

/// Queries so small that their reciprocals are infinite: all tokens weigh alike.
inline AttentionCase CaseOfSmallest(KvDType dtype) {
  AttentionCase test({6, 1, 64, 16}, dtype, {{42, 3}});
  std::fill(test.q.begin(), test.q.end(), 1e-44f);
  return test;
}

/// Everything that one launch needs on the device; out starts as NaN.
struct AttentionLaunch {
  AttentionLaunch(Device& device, DeviceStream& stream, const AttentionCase& of)
      : test(of),
        pages(device, stream, of.batch),
        q(device, stream, of.q),
        gate(device, stream, of.gate),
        blocks(device, stream, of.blocks),
        counts(device, stream, of.counts) {
    const QsaConfig& c = test.batch.config;
    const SparseAttentionScratch sizes = SparseAttentionScratchBytes(
        test.batch.rows(), c.query_heads, c.kv_heads, c.head_dim, c.budget_selection_blocks);
    const auto make = [&](std::int64_t bytes, int fill) {
      const std::vector<std::byte> values(static_cast<std::size_t>(bytes), std::byte(fill));
      return OnDevice<std::byte>(device, stream, values);
    };
    partials.emplace(make(sizes.partials, 0xFF));
    softmax.emplace(make(sizes.softmax, 0xFF));
    tickets.emplace(make(sizes.tickets, 0));
    out.emplace(make(static_cast<std::int64_t>(test.q.size() * 4), 0xFF));
  }

  SparseAttentionArgs Args() const {
    const QsaConfig& c = test.batch.config;
    return {.rows = pages.Rows(),
            .tables = pages.Tables(),
            .kv = pages.Kv(),
            .query_heads = c.query_heads,
            .selection_block_tokens = c.selection_block_tokens,
            .budget_selection_blocks = c.budget_selection_blocks,
            .query = q.data(),
            .gate = gate.data() + c.head_dim,
            .gate_stride = 2 * test.width,
            .gate_head_stride = 2 * c.head_dim,
            .blocks = blocks.data(),
            .counts = counts.data(),
            .partials = reinterpret_cast<float*>(partials->data()),
            .softmax = reinterpret_cast<float*>(softmax->data()),
            .tickets = reinterpret_cast<std::int32_t*>(tickets->data()),
            .out = reinterpret_cast<float*>(out->data())};
  }

  std::vector<float> Out() const {
    const std::vector<std::byte> bytes = out->Read();
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  const AttentionCase& test;
  DeviceBatch pages;
  OnDevice<float> q, gate;
  OnDevice<std::int32_t> blocks, counts;
  std::optional<OnDevice<std::byte>> partials, softmax, tickets, out;
};

inline void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    ASSERT_NEAR(actual[i], expected[i],
                tolerance::kHalfAttention * std::max(1.0f, std::fabs(expected[i])))
        << i;
  }
}

inline constexpr KvDType kTypes[] = {KvDType::kFp16, KvDType::kE4M3};

}  // namespace kv8::cuda
