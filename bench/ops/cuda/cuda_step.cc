// A whole decode step at the released model's dimensions as one graph: embedding, layers in the
// model's order (three GDN, one QSA), final mix, head, greedy choice. The floor is the bytes of
// every weight in use and every state, key and value that the step must move once, over the
// bandwidth of a copy in the same run. Prints Markdown.
//
//   cuda_step [layers]    multiples of 4; each takes 5.2 GB
#include <fmt/format.h>

#include <cstdlib>

#include "bench_device.h"
#include "operands.h"
#include "released_model.h"

namespace kv8::bench {
namespace {

using namespace kv8::cuda;

constexpr std::int64_t kContext = 32'768;
constexpr int kLayersPerQsa = 4;
/// The output projections have few rows of weights; the next norm adds up the parts.
constexpr int kOutSplits = 4;

/// Everything of one layer that is its own; scratch is shared by all.
struct Layer {
  HyperMixArgs attention_mix, expert_mix;
  LinearArgs in, out;
  GdnArgs gdn;  // unless it is a QSA layer
  bool qsa;
  QsaStoreArgs store;
  SelectBlocksArgs select;
  SparseAttentionArgs attention;
  MoeArgs experts;
};

class Step {
 public:
  Step(BenchDevice& b, int layers, int rows, KvElement type) : b_(b), rows_(rows), type_(type) {
    streams_ = b.Floats(rows_ * kWidth);
    y_ = b.Floats(kOutSplits * rows_ * kHidden);
    MakeRows();
    MakeScratch();
    for (int i = 0; i < layers; ++i) layers_.push_back(MakeLayer(i));
    final_mix_ = Mix(false);
    final_mix_.y = y_;
    embed_ = {.ids = b.Upload(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 7)),
              .table = b.RandomWeight(kVocab, kHidden),
              .rows = rows,
              .hidden = kHidden,
              .streams = kStreams,
              .out = streams_};
    head_ = Product(final_mix_.x, kHidden,
                    {{b.RandomWeight(kVocab, kHidden), b.Floats(rows_ * kVocab)}});
    argmax_ = ArgmaxOperands(b, rows, head_.outputs[0].out);
  }

  void Launch() {
    const CudaOps& ops = b_.ops();
    Must(ops.Embed(b_.stream(), embed_));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].attention_mix.y = i == 0 ? nullptr : y_;
      Launch(layers_[i]);
    }
    Must(ops.HyperMix(b_.stream(), final_mix_));
    Must(ops.Linear(b_.stream(), head_));
    Must(ops.Argmax(b_.stream(), argmax_));
  }

  /// After a launch: the experts in use are counted.
  double Bytes() {
    double bytes = 2.0 * kVocab * kHidden + MixBytes();
    for (const Layer& layer : layers_) {
      bytes += 2 * MixBytes() + WeightBytes(layer.in) + WeightBytes(layer.out) +
               ExpertBytes(ActiveExperts(b_, layer.experts));
      const double element = type_ == KvElement::kE4M3 ? 1 : 2;
      bytes += static_cast<double>(rows_) *
               (layer.qsa ? 4.0 * kBudget * 2 * kKvHeads * kHeadDim * element +
                                kContext / 4.0 * kIndexDim * 2
                          : 2.0 * kGdnState * 4);
    }
    return bytes;
  }

  /// Tokens that a step chose, each of its row; none is NaN.
  bool Finite() {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows_));
    Must(b_.stream().Copy(tokens.data(), argmax_.tokens, rows_ * 4));
    Must(b_.stream().Synchronize());
    for (const std::int32_t token : tokens) {
      if (token == kNoToken) return false;
    }
    return true;
  }

 private:
  static double MixBytes() { return 2.0 * kWidth * (2 * kLowRank + kStreams); }
  static double WeightBytes(const LinearArgs& args) {
    double bytes = 0;
    for (int i = 0; i < args.count; ++i) bytes += 2.0 * args.outputs[i].weight.rows * args.inner;
    return bytes;
  }

  void MakeRows() {
    std::vector<std::int32_t> index;
    for (int i = 0; i < rows_; ++i) index.push_back(i);
    index_ = b_.Upload(index);
    ones_ = b_.Upload(std::vector<std::int32_t>(index.size(), 1));
    const std::vector<std::int64_t> positions(index.size(), kContext - 1);
    row_view_ = {index_, b_.Upload(positions), static_cast<std::int32_t>(rows_)};
    sequences_ = MakeSequences(b_, rows_, kContext);
  }

  void MakeScratch() {
    rounded_ = b_.Halves(rows_ * kWidth);
    mix_ = {.streams = streams_,
            .rows = static_cast<std::int32_t>(rows_),
            .stream_count = kStreams,
            .hidden = kHidden,
            .eps = 1e-6f,
            .normed = b_.Floats(rows_ * kWidth),
            .parts = b_.Floats(rows_ * kWidth),
            .low = b_.Floats(rows_ * kLowRank),
            .rounded = rounded_,
            .rounded_low = b_.Halves(rows_ * kLowRank),
            .x = b_.Floats(rows_ * kHidden),
            .inject = b_.Floats(rows_ * kStreams)};
    core_ = b_.Floats(rows_ * kQueryHeads * kHeadDim);
  }

  HyperMixArgs Mix(bool inject) {
    HyperMixArgs mix = mix_;
    mix.gain = b_.RandomFloats(kWidth);
    mix.down = b_.RandomWeight(kLowRank, kWidth);
    mix.up = b_.RandomWeight(kWidth, kLowRank);
    if (inject) mix.inject_weight = b_.RandomWeight(kStreams, kWidth);
    return mix;
  }

  LinearArgs Product(const float* x, std::int32_t inner,
                     const std::vector<std::pair<Weight, float*>>& outputs) {
    LinearArgs args{.x = x,
                    .x_stride = inner,
                    .rows = static_cast<std::int32_t>(rows_),
                    .inner = inner,
                    .count = static_cast<std::int32_t>(outputs.size()),
                    .rounded = rounded_};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      args.outputs[i] = {outputs[i].first, outputs[i].second, outputs[i].first.rows};
    }
    return args;
  }

  Layer MakeLayer(int index) {
    Layer layer{};
    layer.qsa = index % kLayersPerQsa == kLayersPerQsa - 1;
    layer.attention_mix = Mix(true);
    layer.expert_mix = Mix(true);
    layer.expert_mix.y = y_;
    layer.expert_mix.y_parts = kOutSplits;
    layer.out = Product(core_, kQueryHeads * kHeadDim,
                        {{b_.RandomWeight(kHidden, kQueryHeads * kHeadDim), y_}});
    layer.out.splits = kOutSplits;
    if (layer.qsa) {
      MakeQsa(layer);
    } else {
      MakeGdn(layer);
    }
    layer.experts = ExpertOperands(b_, rows_);
    layer.experts.x = layer.expert_mix.x;
    layer.experts.out = y_;
    return layer;
  }

  void MakeGdn(Layer& layer) {
    const auto weight = [&](std::int64_t outs) {
      return std::pair(b_.RandomWeight(outs, kHidden), b_.Floats(rows_ * outs));
    };
    layer.in = Product(mix_.x, kHidden,
                       {weight(kGdnChannels), weight(kValueHeads * kGdnDim), weight(kValueHeads),
                        weight(kValueHeads)});
    layer.gdn = GdnOperands(b_, rows_, rows_, 1);
    layer.gdn.slices = {index_, index_, ones_, static_cast<std::int32_t>(rows_)};
    layer.gdn.max_rows = 1;
    layer.gdn.qkv = layer.in.outputs[0].out;
    layer.gdn.z = layer.in.outputs[1].out;
    layer.gdn.b = layer.in.outputs[2].out;
    layer.gdn.a = layer.in.outputs[3].out;
    layer.gdn.out = core_;
  }

  static constexpr std::int64_t kHeads = kQueryHeads * kHeadDim;

  void MakeQsa(Layer& layer) {
    const auto weight = [&](std::int64_t outs) {
      return std::pair(b_.RandomWeight(outs, kHidden), b_.Floats(rows_ * outs));
    };
    layer.in = Product(mix_.x, kHidden,
                       {weight(2 * kHeads), weight(kKvHeads * kHeadDim),
                        weight(kKvHeads * kHeadDim), weight((kIndexHeads + 1) * kIndexDim)});
    layer.store =
        StoreOperands(b_, row_view_, sequences_.tables, KvPool(b_, sequences_.pages, type_),
                      IndexPool(b_, sequences_.pages));
    layer.store.query_gate = layer.in.outputs[0].out;
    layer.store.key = layer.in.outputs[1].out;
    layer.store.value = layer.in.outputs[2].out;
    layer.store.index_qk = layer.in.outputs[3].out;
    layer.select = SelectOperands(b_, rows_, sequences_.tables, layer.store.index, kContext);
    layer.select.rows = row_view_;
    layer.select.index_query = layer.store.index_query;
    layer.attention = AttentionOperands(b_, rows_, sequences_.tables, layer.store.kv);
    layer.attention.rows = row_view_;
    layer.attention.query = layer.store.query;
    layer.attention.gate = layer.store.query_gate + kHeadDim;
    layer.attention.blocks = layer.select.blocks;
    layer.attention.counts = layer.select.counts;
    layer.attention.out = core_;
  }

  void Launch(const Layer& layer) {
    const CudaOps& ops = b_.ops();
    DeviceStream& stream = b_.stream();
    Must(ops.HyperMix(stream, layer.attention_mix));
    Must(ops.Linear(stream, layer.in));
    if (layer.qsa) {
      Must(ops.QsaStore(stream, layer.store));
      Must(ops.SelectBlocks(stream, layer.select));
      Must(ops.SparseAttention(stream, layer.attention));
    } else {
      Must(ops.Gdn(stream, layer.gdn));
    }
    Must(ops.Linear(stream, layer.out));
    Must(ops.HyperMix(stream, layer.expert_mix));
    Must(ops.Moe(stream, layer.experts));
  }

  BenchDevice& b_;
  std::int64_t rows_;
  KvElement type_;
  float *streams_, *y_, *core_;
  std::uint16_t* rounded_;
  std::int32_t *index_, *ones_;
  RowsView row_view_;
  Sequences sequences_;
  HyperMixArgs mix_, final_mix_;
  EmbedArgs embed_;
  std::vector<Layer> layers_;
  LinearArgs head_;
  ArgmaxArgs argmax_;
};

int Run(int layers) {
  BenchDevice b;
  const double bytes_per_us = b.CopyBandwidth();
  fmt::print(
      "\n| decode step, {} layers and head, context {} | rows | us | floor us | of floor |\n"
      "| --- | --- | --- | --- | --- |\n",
      layers, kContext);
  for (const KvElement type : {KvElement::kE4M3, KvElement::kFp16}) {
    for (const int rows : {1, 16, 64}) {
      if (type == KvElement::kFp16 && rows != 64) continue;
      Step step(b, layers, rows, type);
      const double us = b.MedianMicroseconds(1, [&](int) { step.Launch(); });
      if (!step.Finite()) {
        fmt::print(stderr, "a logit is not finite\n");
        return 1;
      }
      const double floor = step.Bytes() / bytes_per_us;
      fmt::print("| {} cache | {} | {:.0f} | {:.0f} | {:.0f}% |\n",
                 type == KvElement::kE4M3 ? "E4M3" : "FP16", rows, us, floor, 100 * floor / us);
      b.Clear();
    }
  }
  return 0;
}

}  // namespace
}  // namespace kv8::bench

int main(int count, char** arguments) {
  return kv8::bench::Run(count > 1 ? std::atoi(arguments[1]) : 8);
}
