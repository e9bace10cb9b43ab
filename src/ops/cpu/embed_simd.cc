#include <algorithm>

#include "ops/cpu/simd.h"
#include "tensor/weight_row.h"

namespace kv8::simd {
namespace {

constexpr std::int64_t kRowGrain = 32;  // rows that are copied before a second thread has started

}  // namespace

void Embed(const OpContext& ctx, std::span<const TokenId> ids, const Weight& table,
           int stream_count, Matrix streams) {
  const auto count = static_cast<std::int64_t>(ids.size());
  ctx.pool.ParallelFor(count, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* row = streams.row(t).data();
      DecodeRow(table, ids[static_cast<std::size_t>(t)], row);
      for (int s = 1; s < stream_count; ++s) std::copy_n(row, table.cols, row + s * table.cols);
    }
  });
}

}  // namespace kv8::simd
