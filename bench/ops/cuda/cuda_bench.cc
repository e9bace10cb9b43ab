// Times of the GPU's kernels at the released model's dimensions, each beside its floor: the bytes
// that it must move over the bandwidth that a copy reaches in the same run. Prints Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "bench_device.h"
#include "numeric/log_histogram.h"
#include "operands.h"
#include "released_model.h"

namespace kv8::bench {
namespace {

using namespace kv8::cuda;

class Bench {
 public:
  /// Runs the ops whose name contains `filter`, with `rows` rows unless that is 0.
  void Run(std::string_view filter, int rows_only) {
    filter_ = filter;
    bytes_per_us_ = b_.CopyBandwidth();
    fmt::print(
        "\n| op | rows | context | us | floor us | of floor |\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    for (const int rows : {1, 4, 16, 64}) {
      for (const KvElement type : {KvElement::kFp16, KvElement::kE4M3})
        Attention(type, rows, 32'768);
    }
    for (const int change : {1, 2, 8, 64}) {
      for (const KvElement type : {KvElement::kFp16, KvElement::kE4M3})
        AttentionPrompt(type, change);
    }
    for (const std::int64_t context : {32'768, 131'072, 262'144}) {
      for (const int rows : {1, 16, 64}) Select(rows, context);
    }
    for (const int rows : {1, 16, 64}) GdnDecode(rows);
    for (const bool chunks : {false, true}) GdnPrefill(2048, chunks);
    for (const int rows : {1, 64}) Store(rows);
    for (const int rows : {64, 512}) Observe(rows);
    for (const int rows : {1, 16, 64, 512, 2048, 8192}) {
      if (rows_only == 0 || rows == rows_only) Projection(rows);
    }
    for (const int rows : {1, 16, 64, 512, 2048, 8192}) {
      if (rows_only == 0 || rows == rows_only) OutProjection(rows);
    }
    for (const int rows : {1, 16, 64, 512, 2048, 8192}) {
      if (rows_only == 0 || rows == rows_only) Experts(rows);
    }
    for (const int rows : {1, 64, 2048, 8192}) {
      if (rows_only == 0 || rows == rows_only) Mixes(rows);
    }
    for (const int rows : {1, 16, 64}) Tokens(rows);
  }

 private:
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
    PageTables tables;
    std::int64_t pages;  // in the pool
    int sequences;
  };
  Rows MakeRows(int rows, int sets, int sequences, std::int64_t context) {
    Rows result;
    result.sequences = sequences;
    const Sequences all = MakeSequences(b_, sequences, context);
    result.tables = all.tables;
    result.pages = all.pages;
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

  void Attention(KvElement type, int rows, std::int64_t context) {
    if (!Wanted("attention")) return;
    const int sets = std::max(4, 64 / rows);
    const Rows r = MakeRows(rows, sets, 64, context);
    SparseAttentionArgs args = AttentionOperands(type, rows, r);
    const std::int32_t* const selected = RandomSelections(rows * sets, context / 4);
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.rows = r.sets[static_cast<std::size_t>(i)];
      args.blocks = selected + static_cast<std::int64_t>(i) * rows * kBudget;
      Must(b_.ops().SparseAttention(b_.stream(), args));
    });
    const double element = type == KvElement::kE4M3 ? 1 : 2;
    Report(fmt::format("sparse attention, {}", Name(type)), rows, context, us,
           rows * (8.0 * kBudget * kKvHeads * kHeadDim * element + 3.0 * kHeads * 4));
  }

  /// The last rows of one prompt, of whose selections neighbours share all but one selection block
  /// in `change`. The floor is the products over the rate of a large matrix product.
  void AttentionPrompt(KvElement type, int change) {
    if (!Wanted("attention")) return;
    constexpr int kRows = 512, kSets = 4;
    constexpr std::int64_t kContext = 32'768;
    const Rows r = MakeRows(kRows, 1, 1, kContext);
    std::vector<std::int64_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), kContext - kRows);
    std::vector<RowGroup> groups;
    for (int i = 0; i < kRows; i += kPromptGroupRows) groups.push_back({i, kPromptGroupRows});
    PromptAttentionArgs args{.attention = AttentionOperands(type, kRows * kSets, r),
                             .groups = b_.Upload(groups),
                             .group_count = static_cast<std::int32_t>(groups.size())};
    args.attention.rows = {r.sets[0].sequence, b_.Upload(positions), kRows};
    args.attention.blocks = SharedSelections(kRows, (kContext - kRows) / 4, kBudget / change);
    const SparseAttentionArgs first = args.attention;
    const double us = b_.MedianMicroseconds(kSets, [&](int i) {
      args.attention.query = first.query + i * kRows * kHeads;
      args.attention.gate = first.gate + i * kRows * first.gate_stride;
      args.attention.out = first.out + i * kRows * kHeads;
      Must(b_.ops().PromptAttention(b_.stream(), args));
    });
    const double flops = 4.0 * kRows * kHeads * 4 * kBudget;
    Report(fmt::format("sparse attention, {}, prompt, 1 of {} selection blocks new per row",
                       Name(type), change),
           kRows, kContext, us, flops / kFlopsPerUs * bytes_per_us_);
  }

  static constexpr double kFlopsPerUs = 790e6;  // PyTorch's of 8192 x 8192 x 8192 on an H200
  static constexpr std::int64_t kHeads = kQueryHeads * kHeadDim;
  static std::string_view Name(KvElement type) {
    return type == KvElement::kE4M3 ? "E4M3" : "FP16";
  }

  SparseAttentionArgs AttentionOperands(KvElement type, int rows, const Rows& r) {
    return bench::AttentionOperands(b_, rows, r.tables, KvPool(b_, r.pages, type));
  }

  /// [rows,kBudget]: each row has its predecessor's blocks but for `fresh`, which are random.
  const std::int32_t* SharedSelections(int rows, std::int64_t complete, int fresh) {
    std::mt19937 engine(4);
    std::vector<std::int32_t> all(static_cast<std::size_t>(complete)), blocks;
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), engine);
    for (int row = 0; row < rows; ++row) {
      blocks.insert(blocks.end(), all.begin(), all.begin() + kBudget);
      std::sort(blocks.end() - kBudget, blocks.end());
      for (int i = 0; i < fresh; ++i) {  // one of the chosen against one of the others
        const auto out = static_cast<std::size_t>(engine() % kBudget);
        const auto in = static_cast<std::size_t>(
            kBudget + engine() % (static_cast<unsigned>(complete) - kBudget));
        std::swap(all[out], all[in]);
      }
    }
    return b_.Upload(blocks);
  }

  void Select(int rows, std::int64_t context) {
    if (!Wanted("select")) return;
    const int sets = std::max(2, 16 / rows);
    const Rows r = MakeRows(rows, sets, std::max(rows, 16), context);
    SelectBlocksArgs args = SelectOperands(b_, rows, r.tables, IndexPool(b_, r.pages), context);
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.rows = r.sets[static_cast<std::size_t>(i)];
      Must(b_.ops().SelectBlocks(b_.stream(), args));
    });
    Report("index scores + choice", rows, context, us,
           static_cast<double>(rows) * static_cast<double>(context / 4) * kIndexDim * 2);
  }

  void GdnDecode(int rows) {
    if (!Wanted("gdn")) return;
    const int slots = 128, sets = slots / rows;
    std::vector<std::int32_t> slot(slots), begin(slots), one(slots, 1);
    std::iota(slot.begin(), slot.end(), 0);
    for (int i = 0; i < slots; ++i) begin[static_cast<std::size_t>(i)] = i % rows;
    const std::int32_t* const slot_data = b_.Upload(slot);
    const std::int32_t* const begin_data = b_.Upload(begin);
    const std::int32_t* const one_data = b_.Upload(one);
    GdnArgs args = GdnOperands(b_, rows, slots, rows);
    args.max_rows = 1;
    const double us = b_.MedianMicroseconds(sets, [&](int i) {
      args.slices = {slot_data + i * rows, begin_data + i * rows, one_data, rows};
      Must(b_.ops().Gdn(b_.stream(), args));
    });
    Report("GDN decode", rows, 0, us, 2.0 * rows * kGdnState * 4);
  }

  /// One sequence; the floor is every operand and result once, and the state.
  void GdnPrefill(int rows, bool chunks) {
    if (!Wanted("gdn")) return;
    GdnArgs args = GdnOperands(b_, rows, 1, 1);
    args.max_rows = rows;
    args.slices = {b_.Upload(std::vector<std::int32_t>{0}), b_.Upload(std::vector<std::int32_t>{0}),
                   b_.Upload(std::vector<std::int32_t>{rows}), 1};
    const double us = b_.MedianMicroseconds(1, [&](int) {
      Must(chunks ? b_.ops().GdnPrefill(b_.stream(), args) : b_.ops().Gdn(b_.stream(), args));
    });
    const double floats = rows * (kGdnChannels + 2.0 * kValueHeads * kGdnDim) + 2.0 * kGdnState;
    Report(chunks ? "GDN prefill, chunks" : "GDN prefill, recurrence", rows, 0, us, floats * 4);
  }

  void Store(int rows) {
    if (!Wanted("store")) return;
    constexpr std::int64_t kContext = 4096;
    const Rows r = MakeRows(rows, 1, rows, kContext);
    const QsaStoreArgs args = StoreOperands(
        b_, r.sets[0], r.tables, KvPool(b_, r.pages, KvElement::kE4M3), IndexPool(b_, r.pages));
    constexpr std::int64_t kIndexWidth = (kIndexHeads + 1) * kIndexDim;
    const double us =
        b_.MedianMicroseconds(64, [&](int) { Must(b_.ops().QsaStore(b_.stream(), args)); });
    Report("norm, rotation, stores", rows, 0, us,
           static_cast<double>(rows) * (3 * kHeads + 2 * kIndexWidth) * 4);
  }

  /// The projections of a GDN layer's input: qkv, z, b and a.
  void Projection(int rows) {
    Products("linear, GDN input, BF16", rows, kHidden, {10'240, 6144, 48, 48});
  }
  /// Counting magnitudes for calibration. The floor is reading keys and values once.
  void Observe(int rows) {
    if (!Wanted("kv_observe")) return;
    constexpr int kSets = 4;
    const std::int64_t values = std::int64_t{rows} * kKvHeads * kHeadDim;
    const auto cells = Log2Bins::Get().cells();
    std::vector<MagnitudeCell> table;
    for (const Log2Bins::Cell& cell : cells) table.push_back({cell.bin, cell.next_edge});
    const std::vector<std::int32_t> sequence(static_cast<std::size_t>(rows), 0);
    std::vector<KvObserveArgs> sets;
    for (int i = 0; i < kSets; ++i) {
      sets.push_back({.rows = {b_.Upload(sequence), nullptr, rows},
                      .key = b_.RandomFloats(values),
                      .value = b_.RandomFloats(values),
                      .heads = kKvHeads,
                      .dim = kHeadDim,
                      .cells = b_.Upload(table),
                      .out = b_.Upload(std::vector<HeadMagnitudes>(2 * kKvHeads)),
                      .max_bits = b_.Upload(std::vector<std::uint32_t>(2 * kKvHeads)),
                      .max_stride = 2 * kKvHeads});
    }
    const double us = b_.MedianMicroseconds(kSets, [&](int i) {
      Must(b_.ops().KvObserve(b_.stream(), sets[static_cast<std::size_t>(i)]));
    });
    Report("magnitudes for calibration", rows, 0, us, 2.0 * static_cast<double>(values) * 4);
  }

  void OutProjection(int rows) {
    Products("linear, GDN output in 4 parts, BF16", rows, 6144, {kHidden}, 4);
  }

  /// A hyper-connection's mix. The floor is its weights and streams, normed values and x once.
  void Mixes(int rows) {
    if (!Wanted("mix")) return;
    const std::int64_t width = std::int64_t{rows} * kWidth, hidden = std::int64_t{rows} * kHidden;
    const HyperMixArgs args{.y = b_.RandomFloats(hidden),
                            .streams = b_.RandomFloats(width),
                            .gain = b_.RandomFloats(kWidth),
                            .down = b_.RandomWeight(kLowRank, kWidth),
                            .up = b_.RandomWeight(kWidth, kLowRank),
                            .inject_weight = b_.RandomWeight(kStreams, kWidth),
                            .rows = rows,
                            .stream_count = kStreams,
                            .hidden = kHidden,
                            .eps = 1e-6f,
                            .normed = b_.Floats(width),
                            .parts = b_.Floats(width),
                            .low = b_.Floats(std::int64_t{rows} * kLowRank),
                            .rounded = b_.Halves(width),
                            .rounded_low = b_.Halves(std::int64_t{rows} * kLowRank),
                            .x = b_.Floats(hidden),
                            .inject = b_.Floats(std::int64_t{rows} * kStreams)};
    const double us =
        b_.MedianMicroseconds(1, [&](int) { Must(b_.ops().HyperMix(b_.stream(), args)); });
    Report("hyper-connection mix", rows, 0, us,
           2.0 * kWidth * (2 * kLowRank + kStreams) +
               4.0 * static_cast<double>(2 * width + 2 * hidden));
  }

  void Products(std::string_view op, int rows, int inner, const std::vector<std::int64_t>& outs,
                int splits = 1) {
    if (!Wanted("linear")) return;
    constexpr int kSets = 4;
    std::vector<LinearArgs> sets;
    double bytes = 0;
    for (int i = 0; i < kSets; ++i) {
      LinearArgs args{.x = b_.RandomFloats(std::int64_t{rows} * inner),
                      .x_stride = inner,
                      .rows = rows,
                      .inner = inner,
                      .count = static_cast<std::int32_t>(outs.size())};
      args.splits = splits;
      args.rounded = b_.Halves(std::int64_t{rows} * inner);
      bytes = 0;
      for (std::size_t n = 0; n < outs.size(); ++n) {
        args.outputs[n] = {b_.RandomWeight(outs[n], inner), b_.Floats(splits * rows * outs[n]),
                           outs[n]};
        bytes += static_cast<double>(outs[n]) * inner * 2;
      }
      sets.push_back(args);
    }
    const double us = b_.MedianMicroseconds(kSets, [&](int i) {
      Must(b_.ops().Linear(b_.stream(), sets[static_cast<std::size_t>(i)]));
    });
    Report(op, rows, 0, us, Floor(bytes, rows * bytes));
  }

  /// As bytes: what takes longer, reading so many or so many operations at the rate of a large
  /// matrix product.
  double Floor(double bytes, double flops) const {
    return std::max(bytes, flops / kFlopsPerUs * bytes_per_us_);
  }

  void Experts(int rows) {
    if (!Wanted("moe")) return;
    const MoeArgs args = ExpertOperands(b_, rows);
    const double us = b_.MedianMicroseconds(1, [&](int) { Must(b_.ops().Moe(b_.stream(), args)); });
    const int active = ActiveExperts(b_, args);
    Report(fmt::format("experts, BF16, {} of {} in use", active, kExperts), rows, 0, us,
           Floor(ExpertBytes(active), 2.0 * rows * ExpertBytes(kChosen) / 2));
  }

  /// The most likely token, alone and followed by draws. The floor is reading the logits once.
  void Tokens(int rows) {
    if (!Wanted("tokens")) return;
    constexpr float kOctave = 1 << kDistanceBits;
    const struct {
      std::string_view name;
      std::optional<ChoiceRule> rule;
    } cases[] = {
        {"tokens, greedy", {}},
        // Temperatures 1/ln 2 and half of that.
        {"tokens, drawn from all", ChoiceRule{0, 1ull << 62, kOctave, 0, kFarthest}},
        {"tokens, drawn, top-p 0.95",
         ChoiceRule{~0ull / 20 * 19, 1ull << 62, 2 * kOctave, 0, kFarthest}},
        {"tokens, drawn, top-k 20, top-p 0.95",
         ChoiceRule{~0ull / 20 * 19, 1ull << 62, 2 * kOctave, 20, kFarthest}},
    };
    for (const auto& [name, rule] : cases) {
      constexpr int kSets = 4;
      std::vector<ArgmaxArgs> best;
      std::vector<ChooseTokensArgs> choices;
      for (int i = 0; i < kSets; ++i) {
        const float* const logits = b_.RandomFloats(std::int64_t{rows} * kVocab, 2.5f);
        best.push_back(ArgmaxOperands(b_, rows, logits));
        if (rule) choices.push_back(ChoiceOperands(b_, best.back(), *rule));
      }
      const double us = b_.MedianMicroseconds(kSets, [&](int i) {
        Must(b_.ops().Argmax(b_.stream(), best[static_cast<std::size_t>(i)]));
        if (!rule) return;
        Must(b_.ops().ChooseTokens(b_.stream(), choices[static_cast<std::size_t>(i)]));
      });
      Report(name, rows, 0, us, static_cast<double>(rows) * kVocab * 4);
    }
  }

  bool Wanted(std::string_view op) const { return op.find(filter_) != std::string_view::npos; }

  BenchDevice b_;
  std::string_view filter_;
  double bytes_per_us_ = 1;
};

}  // namespace
}  // namespace kv8::bench

int main(int count, char** arguments) {
  kv8::bench::Bench().Run(count > 1 ? arguments[1] : "", count > 2 ? std::atoi(arguments[2]) : 0);
  return 0;
}
