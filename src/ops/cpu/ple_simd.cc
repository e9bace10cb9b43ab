#include "ops/ple.h"
#include "ops/ple_hash.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/product.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "tensor/weight_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/ple_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

// u[s,:] = sigmoid(signed root of the fit of key and streams) * v; un = GroupedNorm(u).
// key [S*H] is normalised in place; query [S*H] is work space; u may be key.
void GateRow(const PleWeights& weights, const float* streams, const float* v, int count,
             std::int64_t dim, float eps, float* key, float* query, float* u, float* un) {
  GroupedNorm(key, weights.gain_key.data(), count, dim, eps, key);
  GroupedNorm(streams, weights.gain_query.data(), count, dim, eps, query);
  for (int s = 0; s < count; ++s) {
    const float fit = Dot(key + s * dim, query + s * dim, dim) / std::sqrt(static_cast<float>(dim));
    const float root = std::sqrt(std::max(std::fabs(fit), 1e-6f));
    const float gate = 1.0f / (1.0f + std::exp(fit == 0 ? 0.0f : -std::copysign(root, fit)));
    ForEachVector(hn::ScalableTag<float>(), dim, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto value = hn::Mul(hn::Set(tag, gate), hn::LoadU(tag, v + i));
      hn::StoreU(value, tag, u + s * dim + i);
    });
  }
  GroupedNorm(u, weights.gain_conv.data(), count, dim, eps, un);
}

// streams += u + silu(sum over j of taps[j,:] * columns[j][:])
void ConvolveRow(const float* taps, const float* const* columns, int kernel, std::int64_t width,
                 const float* u, float* streams) {
  ForEachVector(hn::ScalableTag<float>(), width, [&](auto tag, std::int64_t i) HWY_ATTR {
    auto sum = hn::Zero(tag);
    for (int j = 0; j < kernel; ++j) {
      sum = hn::MulAdd(hn::LoadU(tag, taps + j * width + i), hn::LoadU(tag, columns[j] + i), sum);
    }
    const auto added = hn::Add(hn::LoadU(tag, u + i), Silu(tag, sum));
    hn::StoreU(hn::Add(hn::LoadU(tag, streams + i), added), tag, streams + i);
  });
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(GateRow);
HWY_EXPORT(ConvolveRow);

// Rows of the small loops that are done before a second thread has started.
constexpr std::int64_t kRowGrain = 4;

// Buffers of one call, for T rows; W = streams * H.
struct Buffers {
  Matrix embedding;   // [T,E]
  Matrix gated;       // [T,W]: key, then u
  Matrix value;       // [T,H]
  Matrix normalised;  // [T,W]: un
  float* taps;        // [kernel,W]
};

Buffers TakeBuffers(Arena& arena, const PleConfig& config, std::int64_t rows, std::int64_t width,
                    std::int64_t dim) {
  const auto take = [&](std::int64_t r, std::int64_t c) {
    return Matrix(arena.Take<float>(r * c), r, c);
  };
  Buffers b;
  b.embedding = take(rows, config.embed_dim);
  b.gated = take(rows, width);
  b.value = take(rows, dim);
  b.normalised = take(rows, width);
  b.taps = take(config.conv_kernel, width).data;
  return b;
}

// Buffers of one token's table rows.
struct LookUpBuffers {
  std::span<std::int64_t> rows;  // [heads]
  std::span<TokenId> window;     // [ngram_size]
};

LookUpBuffers TakeLookUp(Arena& arena, const PleConfig& config) {
  const auto heads = static_cast<std::size_t>(config.heads());
  const auto length = static_cast<std::size_t>(config.ngram_size);
  return {{arena.Take<std::int64_t>(config.heads()), heads},
          {arena.Take<TokenId>(config.ngram_size), length}};
}

float* TakeQuery(Arena& arena, std::int64_t width) {
  return arena.Take<float>(width);
}

const float** TakeColumns(Arena& arena, int kernel) {
  return arena.Take<const float*>(kernel);
}

// Table rows of one token, concatenated by head.
void LookUp(const PleWeights& weights, std::span<const TokenId> window,
            std::span<std::int64_t> rows, float* out) {
  PleRowIds(weights.hash, window, rows);
  for (const std::int64_t row : rows) {
    const Weight stored = TableRow(weights.shards, row);
    DecodeRow(stored, 0, out);
    out += stored.cols;
  }
}

// The ids of a slice's rows.
std::span<const TokenId> SliceIds(std::span<const TokenId> ids, const PleSlice& slice) {
  return ids.subspan(static_cast<std::size_t>(slice.row_begin),
                     static_cast<std::size_t>(slice.row_count));
}

void LookUpRows(const OpContext& ctx, const PleConfig& config, const PleWeights& weights,
                std::span<const TokenId> ids, std::span<const PleSlice> slices, Matrix embedding) {
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    Arena scratch = ctx.scratch.Thread(thread);
    const auto [rows, window] = TakeLookUp(scratch, config);
    for (std::int64_t i = begin; i < end; ++i) {
      const SliceRow<PleSlice> at = FindRow(slices, i);
      FillWindow(at.slice->context, SliceIds(ids, *at.slice), at.offset, window);
      LookUp(weights, window, rows, embedding.row(at.row()).data());
    }
  };
  ctx.pool.ParallelFor(TotalRows(slices), kRowGrain, body);
}

// The same of rows that are at hand.
void DecodeRows(const OpContext& ctx, std::span<const Weight> table_rows, Matrix embedding) {
  const std::int64_t heads = std::ssize(table_rows) / std::max<std::int64_t>(embedding.rows, 1);
  ctx.pool.ParallelFor(embedding.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * heads; i < end * heads; ++i) {
      const Weight& row = table_rows[static_cast<std::size_t>(i)];
      DecodeRow(row, 0, embedding.row(i / heads).data() + i % heads * row.cols);
    }
  });
}

void Gate(const OpContext& ctx, const PleWeights& weights, int count, float eps,
          ConstMatrix streams, const Buffers& b) {
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    Arena scratch = ctx.scratch.Thread(thread);
    float* query = TakeQuery(scratch, streams.cols);
    for (std::int64_t t = begin; t < end; ++t) {
      float* gated = b.gated.row(t).data();
      HWY_DYNAMIC_DISPATCH(GateRow)
      (weights, streams.row(t).data(), b.value.row(t).data(), count, b.value.cols, eps, gated,
       query, gated, b.normalised.row(t).data());
    }
  };
  ctx.pool.ParallelFor(streams.rows, kRowGrain, body);
}

// [W,kernel] -> [kernel,W]
void TransposeTaps(std::span<const float> conv, int kernel, std::int64_t width, float* taps) {
  for (std::int64_t c = 0; c < width; ++c) {
    for (int j = 0; j < kernel; ++j) {
      taps[j * width + c] = conv[static_cast<std::size_t>(c * kernel + j)];
    }
  }
}

// Adds u and the convolution of un to the streams.
void ConvolveRows(const OpContext& ctx, const PleConfig& config, std::span<const PleSlice> slices,
                  const Buffers& b, Matrix streams) {
  const int kernel = config.conv_kernel;
  const std::int64_t width = streams.cols;
  const std::int64_t history = std::int64_t{kernel - 1} * config.ngram_size;
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    Arena scratch = ctx.scratch.Thread(thread);
    const float** columns = TakeColumns(scratch, kernel);
    for (std::int64_t i = begin; i < end; ++i) {
      const SliceRow<PleSlice> row = FindRow(slices, i);
      for (int j = 0; j < kernel; ++j) {
        const std::int64_t at = row.offset - std::int64_t{kernel - 1 - j} * config.ngram_size;
        columns[j] = at >= 0 ? b.normalised.row(row.slice->row_begin + at).data()
                             : row.slice->conv_state.data() + (history + at) * width;
      }
      HWY_DYNAMIC_DISPATCH(ConvolveRow)
      (b.taps, columns, kernel, width, b.gated.row(row.row()).data(),
       streams.row(row.row()).data());
    }
  };
  ctx.pool.ParallelFor(TotalRows(slices), kRowGrain, body);
}

// Keeps the last columns and ids of the sequence.
void UpdateState(const PleSlice& slice, std::span<const TokenId> ids, ConstMatrix normalised) {
  const std::int64_t width = normalised.cols;
  const auto history = static_cast<std::int64_t>(slice.conv_state.size()) / width;
  const std::int64_t kept = std::max<std::int64_t>(0, history - slice.row_count);
  float* state = slice.conv_state.data();
  std::memmove(state, state + (history - kept) * width,
               static_cast<std::size_t>(kept * width) * sizeof(float));
  std::memcpy(state + kept * width, normalised.data + (slice.row_count - (history - kept)) * width,
              static_cast<std::size_t>((history - kept) * width) * sizeof(float));
  const auto length = static_cast<std::int64_t>(slice.context.size());
  for (std::int64_t s = 0; s < length; ++s) {  // ascending, so that sources are read before written
    const std::int64_t at = slice.row_count - length + s;
    slice.context[static_cast<std::size_t>(s)] =
        at >= 0 ? ids[static_cast<std::size_t>(at)]
                : slice.context[static_cast<std::size_t>(length + at)];
  }
}

}  // namespace

ScratchSize PleScratch(const OpSizes& sizes) {
  if (!sizes.ple) return {};
  const std::int64_t width = sizes.streams * sizes.hidden;
  ScratchSize most;
  for (const std::int64_t rows : MostRows(sizes.rows)) {
    Arena shared, thread;
    TakeBuffers(shared, *sizes.ple, rows, width, sizes.hidden);
    TakePackedRows(shared, rows, sizes.ple->embed_dim);
    TakePanel(thread, rows, sizes.ple->embed_dim);
    most.Cover({shared.bytes(), thread.bytes()});
  }
  Arena rows, query, columns;
  TakeLookUp(rows, *sizes.ple);
  TakeQuery(query, width);
  TakeColumns(columns, sizes.ple->conv_kernel);
  most.Cover({0, std::max({rows.bytes(), query.bytes(), columns.bytes()})});
  return most;
}

void Ple(const OpContext& ctx, const PleConfig& config, const PleWeights& weights,
         std::span<const TokenId> ids, std::span<const Weight> table_rows,
         std::span<const PleSlice> slices, int stream_count, float eps, Matrix streams) {
  Arena shared = ctx.scratch.shared;
  const Buffers b =
      TakeBuffers(shared, config, streams.rows, streams.cols, streams.cols / stream_count);
  if (table_rows.empty()) {
    LookUpRows(ctx, config, weights, ids, slices, b.embedding);
  } else {
    DecodeRows(ctx, table_rows, b.embedding);
  }
  const Product products[] = {{b.embedding, weights.key, b.gated},
                              {b.embedding, weights.value, b.value}};
  RunProducts(ctx, shared, products);
  Gate(ctx, weights, stream_count, eps, streams, b);
  TransposeTaps(weights.conv, config.conv_kernel, streams.cols, b.taps);
  ConvolveRows(ctx, config, slices, b, streams);
  ctx.pool.ParallelFor(std::ssize(slices), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const PleSlice& slice = slices[static_cast<std::size_t>(i)];
      UpdateState(slice, SliceIds(ids, slice), b.normalised.Rows(slice.row_begin, slice.row_count));
    }
  });
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
