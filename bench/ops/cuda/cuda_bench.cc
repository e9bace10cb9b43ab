// Times of the GPU's kernels at the released model's dimensions, each beside its floor: the bytes
// that it must move over the bandwidth that a copy reaches in the same run. Prints Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "bench_device.h"
#include "kvcache/layout.h"

namespace kv8::bench {
namespace {

using namespace kv8::cuda;

constexpr int kQueryHeads = 24, kKvHeads = 2, kHeadDim = 256, kBudget = 512;
constexpr int kIndexHeads = 4, kIndexDim = 128;
constexpr int kKeyHeads = 16, kValueHeads = 48, kGdnDim = 128;

class Bench {
 public:
  /// Runs the ops whose name contains `filter`.
  void Run(std::string_view filter) {
    filter_ = filter;
    CopyBandwidth();
    fmt::print(
        "\n| op | rows | context | us | floor us | of floor |\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    for (const int rows : {1, 4, 16, 64}) {
      for (const PageType type : {PageType::kFp16, PageType::kE4M3}) Attention(type, rows, 32'768);
    }
    for (const std::int64_t context : {32'768, 131'072, 262'144}) {
      for (const int rows : {1, 16, 64}) Select(rows, context);
    }
    for (const int rows : {1, 16, 64}) GdnDecode(rows);
    for (const int rows : {1, 64}) Store(rows);
    for (const int rows : {1, 16, 64}) Projection(rows);
    for (const int rows : {1, 16, 64}) Experts(rows);
  }

 private:
  void CopyBandwidth() {
    constexpr std::int64_t kBytes = std::int64_t{4} << 30;
    std::byte* const from = b_.Random16(kBytes, 0xFFFF, 0);
    std::byte* const to = b_.Allocate(kBytes);
    const double us = b_.MedianCopyMicroseconds(to, from, kBytes);
    bytes_per_us_ = 2.0 * kBytes / us;
    const DeviceInfo& info = b_.device().info();
    fmt::print("{} (sm_{}, {} multiprocessors, driver {}), copy {:.2f} TB/s\n", info.name,
               info.architecture, info.multiprocessors, info.driver_version, bytes_per_us_ / 1e6);
    b_.Clear();
  }

  void Report(std::string_view op, int rows, std::int64_t context, double us, double bytes) {
    const double floor = bytes / bytes_per_us_;
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.0f}% |\n", op, rows,
               context == 0 ? "" : fmt::to_string(context), us, floor, 100.0 * floor / us);
    b_.Clear();
  }

  /// Sets of `rows` rows: row i of set k belongs to a sequence of its own as long as there are
  /// such.
  struct Rows {
    std::vector<RowsView> sets;
    BlockTables tables;
    std::int64_t blocks;  // in the pool
    int sequences;
  };
  Rows MakeRows(int rows, int sets, int sequences, std::int64_t context) {
    Rows result;
    result.sequences = sequences;
    const std::int64_t stride = context / kTokensPerBlock;
    result.blocks = stride * sequences;
    std::vector<std::int32_t> table(static_cast<std::size_t>(result.blocks));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(3));
    result.tables = {b_.Upload(table), stride};
    const std::vector<std::int64_t> positions(static_cast<std::size_t>(rows), context - 1);
    const std::int64_t* const position = b_.Upload(positions);
    for (int k = 0; k < sets; ++k) {
      std::vector<std::int32_t> sequence;
      for (int i = 0; i < rows; ++i) sequence.push_back((k * rows + i) % sequences);
      result.sets.push_back({b_.Upload(sequence), position, rows});
    }
    return result;
  }

  /// [count,kBudget]: blocks spread over all `complete` ones.
  const std::int32_t* RandomSelections(int count, std::int64_t complete) {
    std::mt19937 engine(4);
    std::vector<std::int32_t> all(static_cast<std::size_t>(complete)), blocks;
    std::iota(all.begin(), all.end(), 0);
    for (int i = 0; i < count; ++i) {
      std::shuffle(all.begin(), all.end(), engine);
      blocks.insert(blocks.end(), all.begin(), all.begin() + kBudget);
      std::sort(blocks.end() - kBudget, blocks.end());
    }
    return b_.Upload(blocks);
  }

  void Attention(PageType type, int rows, std::int64_t context) {
    if (!Wanted("attention")) return;
    const int sets = std::max(4, 64 / rows);
    const Rows r = MakeRows(rows, sets, 64, context);
    const bool e4m3 = type == PageType::kE4M3;
    const KvLayout layout{e4m3 ? KvDType::kE4M3 : KvDType::kFp16, kKvHeads, kHeadDim};
    std::byte* const pool = e4m3 ? b_.Random16(r.blocks * layout.block_bytes(), 0xBFBF, 0x2020)
                                 : b_.Random16(r.blocks * layout.block_bytes(), 0x8FFF, 0x3000);
    const std::int32_t* const selected = RandomSelections(rows * sets, context / 4);
    const std::int32_t* const counts =
        b_.Upload(std::vector<std::int32_t>(static_cast<std::size_t>(rows), kBudget));
    constexpr std::int64_t kWidth = kQueryHeads * kHeadDim;
    const SparseAttentionScratch sizes =
        SparseAttentionScratchBytes(rows, kQueryHeads, kKvHeads, kHeadDim, kBudget);
    SparseAttentionArgs args{
        .tables = r.tables,
        .kv = {reinterpret_cast<unsigned char*>(pool), type, kKvHeads, kHeadDim, 0.1f, 0.1f},
        .query_heads = kQueryHeads,
        .block_tokens = 4,
        .budget_blocks = kBudget,
        .query = b_.RandomFloats(rows * kWidth),
        .gate = b_.RandomFloats(rows * 2 * kWidth),
        .gate_stride = 2 * kWidth,
        .gate_head_stride = 2 * kHeadDim,
        .counts = counts,
        .partials = reinterpret_cast<float*>(b_.Allocate(sizes.partials)),
        .softmax = reinterpret_cast<float*>(b_.Allocate(sizes.softmax)),
        .out = reinterpret_cast<float*>(b_.Allocate(rows * kWidth * 4))};
    args.tickets =
        b_.Upload(std::vector<std::int32_t>(static_cast<std::size_t>(sizes.tickets / 4)));
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.rows = r.sets[static_cast<std::size_t>(i)];
      args.blocks = selected + static_cast<std::int64_t>(i) * rows * kBudget;
      Must(b_.ops().SparseAttention(b_.stream(), args));
    });
    const double bytes = static_cast<double>(rows) *
                         (4.0 * kBudget * 2 * kKvHeads * layout.token_bytes() + 3.0 * kWidth * 4);
    Report(e4m3 ? "sparse attention, E4M3" : "sparse attention, FP16", rows, context, us, bytes);
  }

  void Select(int rows, std::int64_t context) {
    if (!Wanted("select")) return;
    const int sets = std::max(2, 16 / rows);
    const Rows r = MakeRows(rows, sets, std::max(rows, 16), context);
    const std::int64_t keys = r.blocks * 16;
    const std::int64_t most = context / 4;
    SelectBlocksArgs args{
        .tables = r.tables,
        .index = {reinterpret_cast<std::uint16_t*>(
                      b_.Random16(keys * kIndexDim * 2, 0x8FFF, 0x3000)),
                  kIndexDim},
        .index_heads = kIndexHeads,
        .block_tokens = 4,
        .budget_blocks = kBudget,
        .max_blocks = static_cast<std::int32_t>(most),
        .index_query = b_.RandomFloats(std::int64_t{rows} * kIndexHeads * kIndexDim),
        .scores = reinterpret_cast<float*>(b_.Allocate(rows * most * 4)),
        .blocks = reinterpret_cast<std::int32_t*>(b_.Allocate(std::int64_t{rows} * kBudget * 4)),
        .counts = reinterpret_cast<std::int32_t*>(b_.Allocate(rows * 4))};
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.rows = r.sets[static_cast<std::size_t>(i)];
      Must(b_.ops().SelectBlocks(b_.stream(), args));
    });
    Report("index scores + choice", rows, context, us,
           static_cast<double>(rows) * static_cast<double>(most) * kIndexDim * 2);
  }

  void GdnDecode(int rows) {
    if (!Wanted("gdn")) return;
    const int slots = 128, sets = slots / rows;
    constexpr std::int64_t kState = std::int64_t{kValueHeads} * kGdnDim * kGdnDim;
    constexpr std::int64_t kChannels = (2 * kKeyHeads + kValueHeads) * kGdnDim;
    std::vector<std::int32_t> slot(slots), begin(slots), one(slots, 1);
    std::iota(slot.begin(), slot.end(), 0);
    for (int i = 0; i < slots; ++i) begin[static_cast<std::size_t>(i)] = i % rows;
    const std::int32_t* const slot_data = b_.Upload(slot);
    const std::int32_t* const begin_data = b_.Upload(begin);
    const std::int32_t* const one_data = b_.Upload(one);
    GdnArgs args{.max_rows = 1,
                 .key_heads = kKeyHeads,
                 .value_heads = kValueHeads,
                 .key_dim = kGdnDim,
                 .value_dim = kGdnDim,
                 .eps = 1e-6f,
                 .qkv = b_.RandomFloats(rows * kChannels),
                 .z = b_.RandomFloats(std::int64_t{rows} * kValueHeads * kGdnDim),
                 .b = b_.RandomFloats(rows * kValueHeads),
                 .a = b_.RandomFloats(rows * kValueHeads),
                 .conv = b_.RandomFloats(kChannels * 4),
                 .decay = b_.Upload(std::vector<float>(kValueHeads, -0.1f)),
                 .dt_bias = b_.RandomFloats(kValueHeads),
                 .norm = b_.RandomFloats(kGdnDim),
                 .conv_state = b_.RandomFloats(slots * 3 * kChannels),
                 .state = b_.RandomFloats(slots * kState, 0.1f),
                 .convolved = reinterpret_cast<float*>(b_.Allocate(rows * kChannels * 4)),
                 .out = reinterpret_cast<float*>(
                     b_.Allocate(std::int64_t{rows} * kValueHeads * kGdnDim * 4))};
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.slices = {slot_data + i * rows, begin_data + i * rows, one_data, rows};
      Must(b_.ops().Gdn(b_.stream(), args));
    });
    Report("GDN decode", rows, 0, us, static_cast<double>(rows) * 2 * kState * 4);
  }

  void Store(int rows) {
    if (!Wanted("store")) return;
    constexpr std::int64_t kContext = 4096;
    const Rows r = MakeRows(rows, 1, rows, kContext);
    const KvLayout layout{KvDType::kE4M3, kKvHeads, kHeadDim};
    constexpr std::int64_t kWidth = kQueryHeads * kHeadDim;
    constexpr std::int64_t kIndexWidth = (kIndexHeads + 1) * kIndexDim;
    QsaStoreArgs args{
        .rows = r.sets[0],
        .tables = r.tables,
        .query_gate = b_.RandomFloats(rows * 2 * kWidth),
        .key = b_.RandomFloats(std::int64_t{rows} * kKvHeads * kHeadDim),
        .value = b_.RandomFloats(std::int64_t{rows} * kKvHeads * kHeadDim),
        .index_qk = b_.RandomFloats(rows * kIndexWidth),
        .q_gain = b_.RandomFloats(kHeadDim),
        .k_gain = b_.RandomFloats(kHeadDim),
        .index_q_gain = b_.RandomFloats(kIndexDim),
        .index_k_gain = b_.RandomFloats(kIndexDim),
        .inv_freq = b_.RandomFloats(32),
        .eps = 1e-6f,
        .query_heads = kQueryHeads,
        .rotary_dim = 64,
        .index_heads = kIndexHeads,
        .block_tokens = 4,
        .kv = {reinterpret_cast<unsigned char*>(b_.Allocate(r.blocks * layout.block_bytes())),
               PageType::kE4M3, kKvHeads, kHeadDim, 0.1f, 0.1f},
        .index = {reinterpret_cast<std::uint16_t*>(b_.Allocate(r.blocks * 16 * kIndexDim * 2)),
                  kIndexDim},
        .index_ring = b_.RandomFloats(std::int64_t{rows} * kRingTokens * kIndexDim),
        .query = reinterpret_cast<float*>(b_.Allocate(rows * kWidth * 4)),
        .index_query = reinterpret_cast<float*>(b_.Allocate(rows * kIndexWidth * 4)),
        .saturation = b_.Upload(std::vector<unsigned long long>(2))};
    const double us =
        b_.MedianMicroseconds(64, [&](int) { Must(b_.ops().QsaStore(b_.stream(), args)); });
    Report("norm, rotation, stores", rows, 0, us,
           static_cast<double>(rows) * (3 * kWidth + 2 * kIndexWidth) * 4);
  }

  WeightArray Weight(std::int64_t rows, std::int64_t cols) {
    return {reinterpret_cast<std::uint16_t*>(b_.Random16(rows * cols * 2, 0x81FF, 0x3C00)),
            WeightType::kBf16, static_cast<std::int32_t>(rows)};
  }

  /// The projections of a GDN layer's input: qkv, z, b and a.
  void Projection(int rows) {
    if (!Wanted("linear")) return;
    constexpr int kSets = 4;
    constexpr std::int64_t kOuts[] = {10'240, 6144, 48, 48};
    std::vector<LinearArgs> sets;
    double bytes = 0;
    for (int i = 0; i < kSets; ++i) {
      LinearArgs args{.x = b_.RandomFloats(std::int64_t{rows} * kHidden),
                      .x_stride = kHidden,
                      .rows = rows,
                      .inner = kHidden,
                      .count = 4};
      bytes = 0;
      for (int n = 0; n < 4; ++n) {
        float* const out = reinterpret_cast<float*>(b_.Allocate(rows * kOuts[n] * 4));
        args.outputs[n] = {Weight(kOuts[n], kHidden), out, kOuts[n]};
        bytes += static_cast<double>(kOuts[n]) * kHidden * 2;
      }
      sets.push_back(args);
    }
    const double us = b_.MedianMicroseconds(kSets, [&](int i) {
      Must(b_.ops().Linear(b_.stream(), sets[static_cast<std::size_t>(i)]));
    });
    Report("linear, GDN input, BF16", rows, 0, us, bytes);
  }

  static constexpr int kHidden = 2560, kExperts = 512, kChosen = 10, kExpertWidth = 640;

  MoeArgs ExpertArgs(int rows) {
    const std::int64_t pairs = std::int64_t{rows} * kChosen;
    const auto floats = [&](std::int64_t count) {
      return reinterpret_cast<float*>(b_.Allocate(count * 4));
    };
    const auto ints = [&](std::int64_t count) {
      return reinterpret_cast<std::int32_t*>(b_.Allocate(count * 4));
    };
    return {.x = b_.RandomFloats(std::int64_t{rows} * kHidden),
            .rows = rows,
            .hidden = kHidden,
            .experts = kExperts,
            .experts_per_token = kChosen,
            .expert_dim = kExpertWidth,
            .shared_dim = kExpertWidth,
            .router = Weight(kExperts, kHidden),
            .gate_up = Weight(2LL * kExperts * kExpertWidth, kHidden),
            .down = Weight(std::int64_t{kExperts} * kHidden, kExpertWidth),
            .shared_gate_proj = Weight(kExpertWidth, kHidden),
            .shared_up_proj = Weight(kExpertWidth, kHidden),
            .shared_down_proj = Weight(kHidden, kExpertWidth),
            .shared_gate = Weight(1, kHidden),
            .logits = floats(std::int64_t{rows} * kExperts),
            .chosen = ints(pairs),
            .weights = floats(pairs),
            .begins = ints(kExperts + 1),
            .active = ints(kExperts + 1),
            .pairs = ints(pairs),
            .expert_hidden = floats(pairs * kExpertWidth),
            .expert_out = floats(pairs * kHidden),
            .shared_hidden = floats(std::int64_t{rows} * 2 * kExpertWidth),
            .shared_gate_value = floats(rows),
            .shared_out = floats(std::int64_t{rows} * kHidden),
            .out = floats(std::int64_t{rows} * kHidden)};
  }

  void Experts(int rows) {
    if (!Wanted("moe")) return;
    const MoeArgs args = ExpertArgs(rows);
    const double us = b_.MedianMicroseconds(1, [&](int) { Must(b_.ops().Moe(b_.stream(), args)); });
    std::int32_t active = 0;
    Must(b_.stream().Copy(&active, args.active, sizeof active));
    Must(b_.stream().Synchronize());
    Report(fmt::format("experts, BF16, {} of {} in use", active, kExperts), rows, 0, us,
           (3.0 * active + 3) * kExpertWidth * kHidden * 2 + 1.0 * kExperts * kHidden * 2);
  }

  bool Wanted(std::string_view op) const { return op.find(filter_) != std::string_view::npos; }

  BenchDevice b_;
  std::string_view filter_;
  double bytes_per_us_ = 1;
};

}  // namespace
}  // namespace kv8::bench

int main(int count, char** arguments) {
  kv8::bench::Bench().Run(count > 1 ? arguments[1] : "");
  return 0;
}
