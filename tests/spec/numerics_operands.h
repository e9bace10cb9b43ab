// Small operands for the statements of docs/spec/numerics.md.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/op_table.h"
#include "support/op_scratch.h"
#include "tensor/rope_frequencies.h"
#include "unit/ops/owned_weights.h"
#include "unit/ops/random_values.h"

namespace kv8 {

inline std::vector<const OpTable*> Backends() {
  return {FindOps("reference").value(), FindOps("simd").value()};
}

inline Weight ViewOf(const std::vector<float>& weight, std::int64_t rows) {
  return {WeightFormat::kFp32, rows, static_cast<std::int64_t>(weight.size()) / rows,
          reinterpret_cast<const std::byte*>(weight.data())};
}

struct AttentionShape {
  int head_dim = 16;
  int kv_heads = 2;
  int query_heads = 4;
};

/// The last row of a sequence of up to 64 tokens: one page, gates of one half.
struct AttentionCase {
  AttentionCase(KvDType dtype, std::int64_t token_count, const AttentionShape& shape = {})
      : tokens(token_count) {
    config.query_heads = shape.query_heads;
    config.kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.index_heads = 4;
    config.index_dim = 16;
    config.selection_block_tokens = 4;
    config.budget_selection_blocks = 16;
    const KvLayout kv{dtype, config.kv_heads, config.head_dim};
    const IndexLayout index{dtype == KvDType::kFp32, kPageTokens / 4, config.index_dim};
    kv_pool.assign(static_cast<std::size_t>(2 * kv.page_bytes()), std::byte{0});
    index_pool.assign(static_cast<std::size_t>(2 * index.page_bytes()), std::byte{0});
    ring.assign(static_cast<std::size_t>(kIndexRingTokens * config.index_dim), 0.0f);
    slice.row_count = 1;
    slice.first_position = tokens - 1;
    slice.kv = {kv_pool.data(), kv, table, 1.0f, 1.0f};
    slice.index = {index_pool.data(), index, table};
    slice.index_ring = ring;
    q = RandomValues(width(), 1);
    for (std::int32_t b = 0; b < tokens / 4; ++b) selected.push_back(b);
  }
  AttentionCase(const AttentionCase&) = delete;  // the slice points into it

  std::int64_t width() const { return std::int64_t{config.query_heads} * config.head_dim; }
  std::int64_t kv_width() const { return std::int64_t{config.kv_heads} * config.head_dim; }

  /// Rows from position 0 on.
  SaturationCount Store(const OpTable& ops, const std::vector<float>& k,
                        const std::vector<float>& v) {
    QsaSlice rows = slice;
    rows.first_position = 0;
    rows.row_count = static_cast<std::int64_t>(k.size()) / kv_width();
    SaturationCount count;
    ThreadPool pool(1);
    ops.kv_store(test::ContextOf(pool), ConstMatrix(k.data(), rows.row_count, kv_width()),
                 ConstMatrix(v.data(), rows.row_count, kv_width()), {&rows, 1}, &count);
    return count;
  }
  void FillRandom(const OpTable& ops) {
    Store(ops, RandomValues(tokens * kv_width(), 2), RandomValues(tokens * kv_width(), 3));
  }
  void Poison(std::int64_t position) {
    for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
      for (int head = 0; head < config.kv_heads; ++head) {
        std::memset(slice.kv.At(side, head, position), 0xFF,
                    static_cast<std::size_t>(slice.kv.layout.token_bytes()));
      }
    }
  }
  void Select(std::vector<std::int32_t> chosen) { selected = std::move(chosen); }

  std::vector<float> Attend(const OpTable& ops) {
    std::vector<std::int32_t> list = selected, counts{static_cast<std::int32_t>(list.size())};
    list.resize(static_cast<std::size_t>(config.budget_selection_blocks));
    const std::vector<float> gate(static_cast<std::size_t>(width()), 0.0f);
    std::vector<float> out(gate.size());
    ThreadPool pool(1);
    ops.sparse_attention(test::ContextOf(pool), config, ConstMatrix(q.data(), 1, width()),
                         ConstMatrix(gate.data(), 1, width()), config.head_dim, {&slice, 1},
                         {list, counts}, Matrix(out.data(), 1, width()));
    return out;
  }

  HeadNormRope rope() const { return {gain, inv_freq, 1e-6f}; }
  /// Index keys of all complete blocks, from random raw keys.
  void StoreIndexKeys(const OpTable& ops) {
    raw = RandomValues(tokens * config.index_dim, 5);
    QsaSlice rows = slice;
    rows.first_position = 0;
    rows.row_count = tokens;
    ThreadPool pool(1);
    ops.index_store(test::ContextOf(pool), config,
                    ConstMatrix(raw.data(), tokens, config.index_dim), rope(), {&rows, 1});
  }

  QsaConfig config;
  std::int64_t tokens;
  std::array<PageId, 1> table{PageId{1}};
  std::vector<std::byte> kv_pool, index_pool;
  std::vector<float> ring, q, raw;
  std::vector<float> gain = RandomValues(16, 6), inv_freq = RopeFrequencies(1e4, 8);
  std::vector<std::int32_t> selected;
  QsaSlice slice;
};

/// Selection by the last row of a sequence whose blocks score as given.
struct SelectionCase {
  SelectionCase(std::int64_t tokens, int budget) {
    config.index_heads = 4;
    config.index_dim = 4;
    config.selection_block_tokens = 4;
    config.budget_selection_blocks = budget;
    slice.row_count = 1;
    slice.first_position = tokens - 1;
    slice.index = {pool.data(), {true, kPageTokens / 4, 4}, table};
  }
  SelectionCase(const SelectionCase&) = delete;

  std::vector<std::int32_t> Run(const OpTable& ops, const std::vector<float>& scores) {
    for (std::size_t b = 0; b < scores.size(); ++b) {
      std::memcpy(slice.index.At(static_cast<std::int64_t>(b)), &scores[b], sizeof(float));
    }
    const std::vector<float> iq{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    std::vector<std::int32_t> list(static_cast<std::size_t>(config.budget_selection_blocks)),
        counts(1);
    ThreadPool threads(1);
    ops.select_blocks(test::ContextOf(threads), config, ConstMatrix(iq.data(), 1, 16), {&slice, 1},
                      {list, counts});
    list.resize(static_cast<std::size_t>(counts[0]));
    return list;
  }

  QsaConfig config;
  std::array<PageId, 1> table{PageId{0}};
  std::vector<std::byte> pool = std::vector<std::byte>(16 * 16);
  QsaSlice slice;
};

/// One sequence from its start: 2 key heads, 4 value heads of 8.
struct GdnCase {
  explicit GdnCase(std::int64_t row_count) : rows(row_count) {
    weights.conv = RandomValues(64 * 4, 1);
    weights.decay.assign(4, -0.1f);
    weights.dt_bias.assign(4, 0.0f);
    weights.norm = {0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 1.0f, 1.1f, 1.2f};
    qkv = RandomValues(rows * 64, 2);
    z = RandomValues(rows * 32, 3);
    a = RandomValues(rows * 4, 4);
    b = RandomValues(rows * 4, 5);
    conv_state.assign(3 * 64, 0.0f);
    state.assign(4 * 8 * 8, 0.0f);
  }

  std::vector<float> Run(GdnFn& gdn, int threads = 1) {
    std::vector<float> out(static_cast<std::size_t>(rows * 32));
    RunRows(gdn, threads, 0, rows, out);
    return out;
  }
  void RunRows(GdnFn& gdn, int threads, std::int64_t begin, std::int64_t count,
               std::vector<float>& out) {
    const GdnInputs in{
        {qkv.data(), rows, 64}, {z.data(), rows, 32}, {b.data(), rows, 4}, {a.data(), rows, 4}};
    const GdnSlice slice{begin, count, conv_state, state};
    ThreadPool pool(threads);
    gdn(test::ContextOf(pool), config, weights, in, {&slice, 1}, 1e-6f,
        Matrix(out.data(), rows, 32));
  }

  GdnConfig config{2, 4, 8, 8, 4};
  std::int64_t rows;
  OwnedGdnWeights weights;
  std::vector<float> qkv, z, a, b, conv_state, state;
};

/// Four experts of width 1 over one input dimension that matters, two chosen; no shared output.
struct MoeCase {
  explicit MoeCase(const std::array<float, 4>& logits) {
    for (std::size_t e = 0; e < 4; ++e) router[4 * e] = logits[e];
  }

  float Run(const OpTable& ops) const {
    std::vector<float> out(4);
    ThreadPool pool(1);
    ops.moe(test::ContextOf(pool), {4, 2, 1, 1},
            {ViewOf(router, 4), ExpertsOf(ViewOf(gate_up, 8), 4, 0, 1),
             ExpertsOf(ViewOf(gate_up, 8), 4, 1, 1), ExpertsOf(ViewOf(down, 16), 4, 0, 4),
             ViewOf(zero, 1), ViewOf(zero, 1), ViewOf(zero, 4), ViewOf(zero, 1)},
            ConstMatrix(x.data(), 1, 4), Matrix(out.data(), 1, 4));
    return out[0];
  }
  double ExpertOutput(std::size_t e) const {
    const double gate = gate_up[8 * e], up = gate_up[8 * e + 4];
    return down[4 * e] * (gate / (1 + std::exp(-gate)) * up);
  }

  std::vector<float> x{1, 0, 0, 0}, zero{0, 0, 0, 0};
  std::vector<float> router = std::vector<float>(16);
  std::vector<float> gate_up = RandomValues(8 * 4, 7);  // [4 * (gate, up), 4]
  std::vector<float> down = RandomValues(4 * 4, 8);     // [4 * 4, 1]
};

inline bool LinearRowsAreIndependent(const OpTable& ops, int threads) {
  const std::vector<float> x = RandomValues(19 * 37, 1), w = RandomValues(23 * 37, 2);
  std::vector<float> all(19 * 23), one(19 * 23);
  const LinearPart part{ViewOf(w, 23), Matrix(all.data(), 19, 23)};
  ThreadPool pool(threads), single(1);
  ops.linear(test::ContextOf(pool), ConstMatrix(x.data(), 19, 37), {&part, 1});
  for (std::int64_t t = 0; t < 19; ++t) {
    const LinearPart row{ViewOf(w, 23), Matrix(one.data() + t * 23, 1, 23)};
    ops.linear(test::ContextOf(single), ConstMatrix(x.data() + t * 37, 1, 37), {&row, 1});
  }
  return all == one;
}

inline bool MoeRowsAreIndependent(const OpTable& ops, int threads) {
  const std::int64_t h = 24, f = 10, e = 6, rows = 13;
  const std::vector<float> x = RandomValues(rows * h, 1), router = RandomValues(e * h, 2),
                           gate_up = RandomValues(e * 2 * f * h, 3),
                           down = RandomValues(e * h * f, 4), shared = RandomValues(f * h, 5),
                           gate = RandomValues(h, 6);
  const MoeConfig config{static_cast<int>(e), 2, static_cast<int>(f), static_cast<int>(f)};
  const MoeWeights weights{ViewOf(router, e),
                           ExpertsOf(ViewOf(gate_up, e * 2 * f), config.experts, 0, f),
                           ExpertsOf(ViewOf(gate_up, e * 2 * f), config.experts, f, f),
                           ExpertsOf(ViewOf(down, e * h), config.experts, 0, h),
                           ViewOf(shared, f),
                           ViewOf(shared, f),
                           ViewOf(shared, h),
                           ViewOf(gate, 1)};
  std::vector<float> all(x.size()), one(x.size());
  ThreadPool pool(threads), single(1);
  ops.moe(test::ContextOf(pool), config, weights, ConstMatrix(x.data(), rows, h),
          Matrix(all.data(), rows, h));
  for (std::int64_t t = 0; t < rows; ++t) {
    ops.moe(test::ContextOf(single), config, weights, ConstMatrix(x.data() + t * h, 1, h),
            Matrix(one.data() + t * h, 1, h));
  }
  return all == one;
}

/// Rows 44.. of a sequence, selecting 3 blocks each, in one call and one by one.
inline bool AttentionRowsAreIndependent(const OpTable& ops, int threads) {
  constexpr std::int64_t kRows = 20, kFirst = 44;
  AttentionCase test(KvDType::kE4M3, 64);
  test.slice.kv.k_scale = test.slice.kv.v_scale = 0.01f;
  test.FillRandom(ops);
  test.StoreIndexKeys(ops);
  test.config.budget_selection_blocks = 3;
  const std::int64_t width = test.width(), iq_width = 64;
  const std::vector<float> q = RandomValues(kRows * width, 8),
                           iq = RandomValues(kRows * iq_width, 9);
  const auto run = [&](std::int64_t begin, std::int64_t count, int team, std::vector<float>& out) {
    QsaSlice slice = test.slice;
    slice.row_begin = begin;
    slice.row_count = count;
    slice.first_position = kFirst + begin;
    std::vector<std::int32_t> blocks(kRows * 3), counts(kRows);
    const BlockSelection selection{blocks, counts};
    ThreadPool pool(team);
    ops.select_blocks(test::ContextOf(pool), test.config, ConstMatrix(iq.data(), kRows, iq_width),
                      {&slice, 1}, selection);
    ops.sparse_attention(test::ContextOf(pool), test.config, ConstMatrix(q.data(), kRows, width),
                         ConstMatrix(q.data(), kRows, width), 16, {&slice, 1}, selection,
                         Matrix(out.data(), kRows, width));
  };
  std::vector<float> all(q.size()), one(q.size());
  run(0, kRows, threads, all);
  for (std::int64_t t = 0; t < kRows; ++t) run(t, 1, 1, one);
  return all == one;
}

inline bool GdnRowsAreIndependent(const OpTable& ops, int threads) {
  GdnCase whole(20), cut(20);
  const std::vector<float> all = whole.Run(*ops.gdn_decode, threads);
  std::vector<float> one(all.size());
  for (std::int64_t t = 0; t < 20; ++t) cut.RunRows(*ops.gdn_decode, 1, t, 1, one);
  // The oracle keeps doubles inside a call, so that it is exact only for one cut.
  if (ops.name == "reference") return true;
  return all == one && whole.state == cut.state && whole.conv_state == cut.conv_state;
}

}  // namespace kv8
