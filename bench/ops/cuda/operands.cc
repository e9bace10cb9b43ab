#include "operands.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "kvcache/layout.h"
#include "released_model.h"

namespace kv8::bench {

using namespace kv8::cuda;

MoeArgs ExpertOperands(BenchDevice& b, std::int64_t rows) {
  const std::int64_t pairs = rows * kChosen;
  return {.x = b.RandomFloats(rows * kHidden),
          .rows = static_cast<std::int32_t>(rows),
          .hidden = kHidden,
          .experts = kExperts,
          .experts_per_token = kChosen,
          .expert_dim = kExpertWidth,
          .shared_dim = kExpertWidth,
          .router = b.Weight(kExperts, kHidden),
          .gate_up = b.Weight(2LL * kExperts * kExpertWidth, kHidden),
          .down = b.Weight(std::int64_t{kExperts} * kHidden, kExpertWidth),
          .shared_gate_proj = b.Weight(kExpertWidth, kHidden),
          .shared_up_proj = b.Weight(kExpertWidth, kHidden),
          .shared_down_proj = b.Weight(kHidden, kExpertWidth),
          .shared_gate = b.Weight(1, kHidden),
          .logits = b.Floats(rows * kExperts),
          .chosen = b.Ints(pairs),
          .weights = b.Floats(pairs),
          .begins = b.Ints(kExperts + 1),
          .active = b.Ints(kExperts + 1),
          .pairs = b.Ints(pairs),
          .expert_hidden = b.Floats(pairs * kExpertWidth),
          .expert_out = b.Floats(pairs * kHidden),
          .shared_hidden = b.Floats(rows * kExpertWidth),
          .shared_gate_value = b.Floats(rows),
          .shared_out = b.Floats(rows * kHidden),
          .out = b.Floats(rows * kHidden)};
}

double ExpertBytes(int active) {
  return 2.0 * kHidden * (3.0 * (active + 1) * kExpertWidth + kExperts);
}

Sequences MakeSequences(BenchDevice& b, std::int64_t count, std::int64_t context) {
  const std::int64_t stride = context / kTokensPerBlock;
  std::vector<std::int32_t> table(static_cast<std::size_t>(stride * count));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(3));
  return {{b.Upload(table), stride}, stride * count};
}

KvPoolView KvPool(BenchDevice& b, std::int64_t blocks, PageType type) {
  const bool e4m3 = type == PageType::kE4M3;
  const KvLayout layout{e4m3 ? KvDType::kE4M3 : KvDType::kFp16, kKvHeads, kHeadDim};
  std::byte* const pool = e4m3 ? b.Random16(blocks * layout.block_bytes(), 0xBFBF, 0x2020)
                               : b.Random16(blocks * layout.block_bytes(), 0x8FFF, 0x3000);
  return {reinterpret_cast<unsigned char*>(pool), type, kKvHeads, kHeadDim, 0.1f, 0.1f};
}

IndexPoolView IndexPool(BenchDevice& b, std::int64_t blocks) {
  return {reinterpret_cast<std::uint16_t*>(b.Random16(blocks * 16 * kIndexDim * 2, 0x8FFF, 0x3000)),
          kIndexDim};
}

}  // namespace kv8::bench
