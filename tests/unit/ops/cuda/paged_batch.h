// Sequences with pages on host and device alike: what a QSA op of either backend works on.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "ops/qsa.h"
#include "unit/ops/cuda/device_fixture.h"
#include "unit/ops/paged_sequence.h"
#include "unit/ops/random_values.h"

namespace kv8::cuda {

/// Rows at the end of one sequence.
struct RowsOf {
  std::int64_t tokens;  // length of the sequence, these rows included
  std::int64_t rows;
};

/// One pool for all sequences, in a scattered order; every byte is NaN until it is stored.
struct PagedBatch {
  PagedBatch(const QsaConfig& qsa, KvDType dtype, std::vector<RowsOf> rows_of)
      : config(qsa),
        sequences(std::move(rows_of)),
        kv_layout{dtype, qsa.kv_heads, qsa.head_dim},
        index_layout{false, kPageTokens / qsa.selection_block_tokens, qsa.index_dim} {
    std::int32_t next = 1;
    for (const RowsOf& s : sequences) {
      stride = std::max(stride, (s.tokens + kPageTokens - 1) / kPageTokens);
    }
    const auto count = static_cast<std::int64_t>(sequences.size());
    std::vector<PageId> ids;  // every other one, so that neighbours are nobody's
    for (const RowsOf& s : sequences) {
      for (std::int64_t i = 0; i * kPageTokens < s.tokens; ++i, next += 2)
        ids.push_back(PageId{next});
    }
    std::shuffle(ids.begin(), ids.end(), std::mt19937(3));
    table.assign(static_cast<std::size_t>(count * stride), PageId{-1});
    auto id = ids.begin();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t pages =
          (sequences[static_cast<std::size_t>(i)].tokens + kPageTokens - 1) / kPageTokens;
      std::copy_n(id, pages, table.begin() + i * stride);
      id += pages;
    }
    const auto physical = static_cast<std::size_t>(next + 1);
    kv_pool.assign(physical * static_cast<std::size_t>(kv_layout.page_bytes()), kPoison);
    index_pool.assign(physical * static_cast<std::size_t>(index_layout.page_bytes()), kPoison);
    rings.assign(static_cast<std::size_t>(count * kIndexRingTokens * config.index_dim), 0.0f);
    for (std::int64_t i = 0; i < count; ++i) AddRows(i);
    k_scale = dtype == KvDType::kE4M3 ? 0.03125f : 1.0f;
    v_scale = dtype == KvDType::kE4M3 ? 0.0171f : 1.0f;
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(row_position.size()); }

  /// The host's view.
  std::vector<QsaSlice> Slices() {
    std::vector<QsaSlice> slices;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::span<const PageId> pages = std::span<const PageId>(table).subspan(
          i * static_cast<std::size_t>(stride), static_cast<std::size_t>(stride));
      const auto ring = static_cast<std::size_t>(kIndexRingTokens * config.index_dim);
      slices.push_back({begin,
                        sequences[i].rows,
                        sequences[i].tokens - sequences[i].rows,
                        {kv_pool.data(), kv_layout, pages, k_scale, v_scale},
                        {index_pool.data(), index_layout, pages},
                        std::span<float>(rings).subspan(i * ring, ring)});
      begin += sequences[i].rows;
    }
    return slices;
  }

  /// Random K and V at `position` of sequence `i`, through the scalar codec.
  void PutToken(std::size_t i, std::int64_t position) {
    const QsaSlice slice = Slices()[i];
    for (int head = 0; head < config.kv_heads; ++head) {
      for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
        const auto seed = static_cast<std::uint32_t>(position * 64 + head * 2 + int(side) +
                                                     std::int64_t(i) * 7919);
        const std::vector<float> values = RandomValues(config.head_dim, seed);
        std::byte* const to = slice.kv.At(side, head, position);
        const float scale = side == KvSide::kKey ? k_scale : v_scale;
        for (std::int64_t d = 0; d < config.head_dim; ++d) {
          StoreKvElement(kv_layout.dtype, values[static_cast<std::size_t>(d)], scale, to, d);
        }
      }
    }
  }

  static constexpr std::byte kPoison{0xFF};

  QsaConfig config;
  std::vector<RowsOf> sequences;
  KvLayout kv_layout;
  IndexLayout index_layout;
  std::int64_t stride = 1;
  std::vector<PageId> table;
  std::vector<std::byte> kv_pool, index_pool;
  std::vector<float> rings;
  std::vector<std::int32_t> row_sequence;
  std::vector<std::int64_t> row_position;
  float k_scale = 1.0f, v_scale = 1.0f;

 private:
  void AddRows(std::int64_t i) {
    const RowsOf& s = sequences[static_cast<std::size_t>(i)];
    for (std::int64_t t = s.tokens - s.rows; t < s.tokens; ++t) {
      row_sequence.push_back(static_cast<std::int32_t>(i));
      row_position.push_back(t);
    }
  }
};

/// The device's view of a PagedBatch, a copy of what it holds at construction.
struct DeviceBatch {
  DeviceBatch(Device& device, DeviceStream& stream, const PagedBatch& paged)
      : batch(paged),
        sequence(device, stream, paged.row_sequence),
        position(device, stream, paged.row_position),
        table(device, stream, paged.table),
        kv_pool(device, stream, paged.kv_pool),
        index_pool(device, stream, paged.index_pool),
        rings(device, stream, paged.rings) {}

  RowsView Rows() const {
    return {sequence.data(), position.data(), static_cast<std::int32_t>(batch.rows())};
  }
  PageTables Tables() const {
    return {reinterpret_cast<const std::int32_t*>(table.data()), batch.stride};
  }
  KvPoolView Kv() const {
    return {reinterpret_cast<unsigned char*>(kv_pool.data()),
            batch.kv_layout.dtype == KvDType::kE4M3 ? KvElement::kE4M3 : KvElement::kFp16,
            static_cast<std::int32_t>(batch.kv_layout.kv_heads),
            static_cast<std::int32_t>(batch.kv_layout.head_dim),
            batch.k_scale,
            batch.v_scale};
  }
  IndexPoolView Index() const {
    return {reinterpret_cast<std::uint16_t*>(index_pool.data()),
            static_cast<std::int32_t>(batch.index_layout.index_dim)};
  }

  const PagedBatch& batch;
  OnDevice<std::int32_t> sequence;
  OnDevice<std::int64_t> position;
  OnDevice<PageId> table;
  OnDevice<std::byte> kv_pool, index_pool;
  OnDevice<float> rings;
};

}  // namespace kv8::cuda
