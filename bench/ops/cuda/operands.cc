#include "operands.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "kvcache/layout.h"
#include "released_model.h"

namespace kv8::bench {

using namespace kv8::cuda;

namespace {

ExpertWeights Stack(const Weight& all) {
  const Weight first = all.Rows(0, all.rows / kExperts);
  return {first, first.bytes()};
}

}  // namespace

MoeArgs ExpertOperands(BenchDevice& b, std::int64_t rows) {
  const std::int64_t pairs = rows * kChosen;
  return {.x = b.RandomFloats(rows * kHidden),
          .rows = static_cast<std::int32_t>(rows),
          .hidden = kHidden,
          .experts = kExperts,
          .experts_per_token = kChosen,
          .expert_dim = kExpertWidth,
          .shared_dim = kExpertWidth,
          .router = b.RandomWeight(kExperts, kHidden),
          .gate_up = Stack(b.RandomWeight(2LL * kExperts * kExpertWidth, kHidden)),
          .down = Stack(b.RandomWeight(std::int64_t{kExperts} * kHidden, kExpertWidth)),
          .shared_gate_proj = b.RandomWeight(kExpertWidth, kHidden),
          .shared_up_proj = b.RandomWeight(kExpertWidth, kHidden),
          .shared_down_proj = b.RandomWeight(kHidden, kExpertWidth),
          .shared_gate = b.RandomWeight(1, kHidden),
          .logits = b.Floats(rows * kExperts),
          .chosen = b.Ints(pairs),
          .weights = b.Floats(pairs),
          .counts = b.Zeros<std::int32_t>(kExperts),
          .cursors = b.Ints(kExperts),
          .begins = b.Ints(kExperts + 1),
          .tiles = reinterpret_cast<ExpertTile*>(
              b.Ints(3 * (1 + MaxExpertTiles(kExperts, pairs, kFewRows)))),
          .pairs = b.Ints(pairs),
          .rounded = b.Halves(rows * kHidden),
          .expert_hidden = b.Floats(pairs * kExpertWidth),
          .expert_out = b.Floats(pairs * kHidden),
          .shared_hidden = b.Floats(rows * kExpertWidth),
          .shared_gate_value = b.Floats(rows),
          .shared_out = b.Floats(rows * kHidden),
          .out = b.Floats(rows * kHidden)};
}

int ActiveExperts(BenchDevice& b, const MoeArgs& args) {
  std::vector<std::int32_t> begins(kExperts + 1);
  Must(b.stream().Copy(begins.data(), args.begins, std::ssize(begins) * 4));
  Must(b.stream().Synchronize());
  int active = 0;
  for (std::size_t e = 0; e < kExperts; ++e) active += begins[e + 1] > begins[e] ? 1 : 0;
  return active;
}

double ExpertBytes(int active) {
  return 2.0 * kHidden * (3.0 * (active + 1) * kExpertWidth + kExperts);
}

Sequences MakeSequences(BenchDevice& b, std::int64_t count, std::int64_t context) {
  const std::int64_t stride = context / kv8::kPageTokens;
  std::vector<std::int32_t> table(static_cast<std::size_t>(stride * count));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(3));
  return {{b.Upload(table), stride}, stride * count};
}

KvPoolView KvPool(BenchDevice& b, std::int64_t pages, KvElement type) {
  const bool e4m3 = type == KvElement::kE4M3;
  const KvLayout layout{e4m3 ? KvDType::kE4M3 : KvDType::kFp16, kKvHeads, kHeadDim};
  std::byte* const pool = e4m3 ? b.Random16(pages * layout.page_bytes(), 0xBFBF, 0x2020)
                               : b.Random16(pages * layout.page_bytes(), 0x8FFF, 0x3000);
  return {reinterpret_cast<unsigned char*>(pool), type, kKvHeads, kHeadDim, 0.1f, 0.1f};
}

IndexPoolView IndexPool(BenchDevice& b, std::int64_t pages) {
  const IndexLayout layout{false, kv8::kPageTokens / kSelectionBlockTokens, kIndexDim};
  std::byte* const pool = b.Random16(pages * layout.page_bytes(), 0x8FFF, 0x3000);
  return {reinterpret_cast<std::uint16_t*>(pool), kIndexDim};
}

GdnArgs GdnOperands(BenchDevice& b, std::int64_t rows, std::int64_t slots, std::int64_t slices) {
  return {.key_heads = kKeyHeads,
          .value_heads = kValueHeads,
          .key_dim = kGdnDim,
          .value_dim = kGdnDim,
          .eps = 1e-6f,
          .qkv = b.RandomFloats(rows * kGdnChannels),
          .z = b.RandomFloats(rows * kValueHeads * kGdnDim),
          .b = b.RandomFloats(rows * kValueHeads),
          .a = b.RandomFloats(rows * kValueHeads),
          .conv = b.RandomFloats(kGdnChannels * 4),
          .decay = b.Upload(std::vector<float>(kValueHeads, -0.1f)),
          .dt_bias = b.RandomFloats(kValueHeads),
          .norm = b.RandomFloats(kGdnDim),
          .conv_state = b.RandomFloats(slots * 3 * kGdnChannels),
          .state = b.RandomFloats(slots * kGdnState, 0.1f),
          .convolved = b.Floats(rows * kGdnChannels),
          .chunks = b.Floats(GdnChunkFloats(rows, slices, kValueHeads)),
          .out = b.Floats(rows * kValueHeads * kGdnDim)};
}

QsaStoreArgs StoreOperands(BenchDevice& b, const RowsView& rows, const PageTables& tables,
                           const KvPoolView& kv, const IndexPoolView& index) {
  const std::int64_t count = rows.count;
  return {.rows = rows,
          .tables = tables,
          .query_gate = b.RandomFloats(count * 2 * kQueryHeads * kHeadDim),
          .key = b.RandomFloats(count * kKvHeads * kHeadDim),
          .value = b.RandomFloats(count * kKvHeads * kHeadDim),
          .index_qk = b.RandomFloats(count * (kIndexHeads + 1) * kIndexDim),
          .q_gain = b.RandomFloats(kHeadDim),
          .k_gain = b.RandomFloats(kHeadDim),
          .index_q_gain = b.RandomFloats(kIndexDim),
          .index_k_gain = b.RandomFloats(kIndexDim),
          .inv_freq = b.RandomFloats(kRotaryDim / 2),
          .eps = 1e-6f,
          .query_heads = kQueryHeads,
          .rotary_dim = kRotaryDim,
          .index_heads = kIndexHeads,
          .selection_block_tokens = 4,
          .kv = kv,
          .index = index,
          .index_ring = b.RandomFloats(count * kRingTokens * kIndexDim),
          .query = b.Floats(count * kQueryHeads * kHeadDim),
          .index_query = b.Floats(count * kIndexHeads * kIndexDim),
          .saturation = b.Upload(std::vector<unsigned long long>(4))};
}

SelectBlocksArgs SelectOperands(BenchDevice& b, std::int64_t rows, const PageTables& tables,
                                const IndexPoolView& index, std::int64_t context) {
  const std::int64_t most = context / 4;
  return {.tables = tables,
          .index = index,
          .index_heads = kIndexHeads,
          .selection_block_tokens = 4,
          .budget_selection_blocks = kBudget,
          .max_selection_blocks = static_cast<std::int32_t>(most),
          .index_query = b.RandomFloats(rows * kIndexHeads * kIndexDim),
          .scores = b.Floats(rows * most),
          .blocks = b.Ints(rows * kBudget),
          .counts = b.Ints(rows)};
}

SparseAttentionArgs AttentionOperands(BenchDevice& b, std::int64_t rows, const PageTables& tables,
                                      const KvPoolView& kv) {
  constexpr std::int64_t kHeads = kQueryHeads * kHeadDim;
  const SparseAttentionScratch sizes =
      SparseAttentionScratchBytes(rows, kQueryHeads, kKvHeads, kHeadDim, kBudget);
  return {.tables = tables,
          .kv = kv,
          .query_heads = kQueryHeads,
          .selection_block_tokens = 4,
          .budget_selection_blocks = kBudget,
          .query = b.RandomFloats(rows * kHeads),
          .gate = b.RandomFloats(rows * 2 * kHeads),
          .gate_stride = 2 * kHeads,
          .gate_head_stride = 2 * kHeadDim,
          .counts = b.Upload(std::vector<std::int32_t>(static_cast<std::size_t>(rows), kBudget)),
          .partials = b.Floats(sizes.partials / 4),
          .softmax = b.Floats(sizes.softmax / 4),
          .tickets = b.Zeros<std::int32_t>(sizes.tickets / 4),
          .out = b.Floats(rows * kHeads)};
}

ArgmaxArgs ArgmaxOperands(BenchDevice& b, std::int64_t rows, const float* logits) {
  return {.logits = logits,
          .stride = kVocab,
          .rows = static_cast<std::int32_t>(rows),
          .vocab = kVocab,
          .parts = b.Zeros<std::uint64_t>(rows * ArgmaxParts(kVocab)),
          .tickets = b.Zeros<std::int32_t>(rows),
          .tokens = b.Ints(rows)};
}

ChooseTokensArgs ChoiceOperands(BenchDevice& b, const ArgmaxArgs& best, const ChoiceRule& rule) {
  const std::int64_t rows = best.rows;
  return {.logits = best.logits,
          .stride = best.stride,
          .rows = best.rows,
          .vocab = best.vocab,
          .rules = b.Upload(std::vector<ChoiceRule>(static_cast<std::size_t>(rows), rule)),
          .weights = b.Zeros<std::uint64_t>(rows * kChoiceBins),
          .counts = b.Zeros<std::uint32_t>(rows * kChoiceBins),
          .state = b.Zeros<ChoiceRow>(rows),
          .list = b.Zeros<std::uint64_t>(rows * kMaxListed),
          .tokens = best.tokens};
}

}  // namespace kv8::bench
