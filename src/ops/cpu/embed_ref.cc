#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {

void Embed(const OpContext&, std::span<const TokenId> ids, const Weight& table, int stream_count,
           Matrix streams) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::span<float> row = streams.row(static_cast<std::int64_t>(t));
    for (std::int64_t i = 0; i < stream_count * table.cols; ++i) {
      row[static_cast<std::size_t>(i)] =
          static_cast<float>(WeightAt(table, ids[t], i % table.cols));
    }
  }
}

}  // namespace kv8::reference
