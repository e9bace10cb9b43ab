#include "ops/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "kvcache/layout.h"
#include "ops/cuda/kernel_limits.h"

namespace kv8 {
namespace {

using Spec = const ModelSpec&;

std::int64_t Hidden(Spec s) {
  return s.hidden;
}
std::int64_t LowRank(Spec s) {
  return s.lowrank;
}
std::int64_t Streams(Spec s) {
  return s.streams;
}
std::int64_t ConvKernel(Spec s) {
  return s.gdn.conv_kernel;
}
std::int64_t KeyDim(Spec s) {
  return s.gdn.key_dim;
}
/// 1 where value heads are as wide as key heads.
std::int64_t WidthRatio(Spec s) {
  return s.gdn.value_dim % s.gdn.key_dim == 0 ? s.gdn.value_dim / s.gdn.key_dim : 0;
}
std::int64_t HeadDim(Spec s) {
  return s.qsa.head_dim;
}
std::int64_t QueryHeadsPerKvHead(Spec s) {
  return s.qsa.query_heads / s.qsa.kv_heads;
}
std::int64_t IndexDim(Spec s) {
  return s.qsa.index_dim;
}
std::int64_t IndexHeads(Spec s) {
  return s.qsa.index_heads;
}
std::int64_t BlockTokens(Spec s) {
  return s.qsa.selection_block_tokens;
}
std::int64_t Experts(Spec s) {
  return s.moe.experts;
}
std::int64_t ExpertsPerToken(Spec s) {
  return s.moe.experts_per_token;
}
std::int64_t ExpertDim(Spec s) {
  return s.moe.expert_dim;
}
std::int64_t SharedExpertDim(Spec s) {
  return s.moe.shared_expert_dim;
}
std::int64_t PleEmbedDim(Spec s) {
  return s.ple ? s.ple->embed_dim : -1;
}
std::int64_t Ngram(Spec s) {
  return s.ple ? s.ple->ngram_size : -1;
}
std::int64_t HyperPartsOfWidth(Spec s) {
  return cuda::HyperPartsOfWidth(s.lowrank, s.streams, s.stream_width());
}

/// Tokens of a selection block that the ring of raw index keys can complete, with the rows of a
/// verification behind it.
constexpr std::int64_t kMaxBlockTokens = kIndexRingTokens / 2;

constexpr Limit kCpuLimits[] = {
    {"index_store", "indexer_compress_ratio", BlockTokens, {.max = kMaxBlockTokens}},
};

constexpr Limit kCudaLimits[] = {
    {"linear", "hidden_size", Hidden, cuda::kInnerDims},
    {"hyper_mix", "hc_count", Streams, cuda::kStreamCounts},
    {"hyper_mix", "hc_lowrank", LowRank, cuda::kInnerDims},
    {"hyper_mix",
     "8 * (hc_lowrank + hc_count) / (hc_count * hidden_size)",
     HyperPartsOfWidth,
     {.max = 1}},
    {"gdn", "linear_conv_kernel_dim", ConvKernel, cuda::kConvKernels},
    {"gdn", "linear_key_head_dim", KeyDim, cuda::kGdnDims},
    {"gdn", "linear_value_head_dim / linear_key_head_dim", WidthRatio, {.one_of = {1}}},
    {"attention", "head_dim", HeadDim, cuda::kHeadDims},
    {"attention", "num_attention_heads / num_key_value_heads", QueryHeadsPerKvHead,
     cuda::kHeadsPerKvHead},
    {"select_blocks", "indexer_head_dim", IndexDim, cuda::kIndexDims},
    {"select_blocks", "indexer_n_heads", IndexHeads, cuda::kIndexHeadCounts},
    {"select_blocks", "indexer_compress_ratio", BlockTokens, cuda::kSelectionBlocks},
    {"moe", "num_experts", Experts, cuda::kExpertCounts},
    {"moe", "num_experts_per_tok", ExpertsPerToken, cuda::kExpertsPerToken},
    {"moe", "moe_intermediate_size", ExpertDim, cuda::kInnerDims},
    {"moe", "shared_expert_intermediate_size", SharedExpertDim, cuda::kInnerDims},
    {"ple", "ple_embed_dim", PleEmbedDim, cuda::kInnerDims},
    {"ple", "ngram_size", Ngram, cuda::kNgramSizes},
};

std::string_view DeviceName(DeviceKind device) {
  return device == DeviceKind::kCuda ? "the GPU" : "the CPU";
}

}  // namespace

bool Values::Hold(std::int64_t got) const {
  if (one_of[0] != 0) return std::ranges::count(one_of, got) > 0;
  return got >= min && got <= max && got % multiple_of == 0;
}

std::string Values::Text() const {
  if (one_of[0] != 0) {
    const auto end = std::ranges::find(one_of, 0);
    return fmt::format("{}", fmt::join(one_of.begin(), end, ", "));
  }
  if (multiple_of != 1) {
    return fmt::format("multiples of {}{}", multiple_of,
                       max == INT32_MAX ? "" : fmt::format(" up to {}", max));
  }
  return max == min ? fmt::format("{}", min) : fmt::format("{} to {}", min, max);
}

std::span<const Limit> LimitsOf(DeviceKind device) {
  if (device == DeviceKind::kCuda) return kCudaLimits;
  return kCpuLimits;
}

std::span<const WeightFormat> WeightFormatsOf(DeviceKind device) {
  using enum WeightFormat;
  static constexpr WeightFormat kCpu[] = {kBf16, kFp16, kFp32, kFp8, kNvfp4, kInt4};
  static constexpr WeightFormat kCuda[] = {kBf16, kFp16};
  if (device == DeviceKind::kCuda) return kCuda;
  return kCpu;
}

std::string WeightFormatsText(DeviceKind device) {
  std::vector<std::string_view> names;
  for (const WeightFormat format : WeightFormatsOf(device)) names.push_back(Name(format));
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

Result<void> CheckLimits(const ModelSpec& spec, DeviceKind device) {
  for (const Limit& limit : LimitsOf(device)) {
    const std::int64_t got = limit.value(spec);
    if (got < 0 || limit.has.Hold(got)) continue;
    return Error{Code::kUnsupported,
                 fmt::format("{} is {}; {} on {} has {}", limit.field, got, limit.op,
                             DeviceName(device), limit.has.Text()),
                 "config.json",
                 device == DeviceKind::kCuda ? "run this model with --device cpu"
                                             : "use a checkpoint whose dimensions kv8 has"};
  }
  return {};
}

std::string LimitsDocument() {
  std::string text =
      "# What the ops can do\n\n"
      "Written from the tables in `src/ops/limits.cc`, which are checked when a model is loaded: "
      "a\n"
      "model beyond a limit is refused by name. Everything else that the configuration reader "
      "admits\nruns.\n";
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    text += fmt::format("\n## {}\n\n| op | field | has |\n| --- | --- | --- |\n",
                        device == DeviceKind::kCuda ? "NVIDIA GPUs" : "CPU");
    for (const Limit& limit : LimitsOf(device)) {
      text += fmt::format("| {} | `{}` | {} |\n", limit.op, limit.field, limit.has.Text());
    }
  }
  return text +
         fmt::format(
             "\nWeights are {} on a GPU, {} on the CPU, the same for every op; the K/V cache "
             "of a\nGPU is FP16 or E4M3.\n",
             WeightFormatsText(DeviceKind::kCuda), WeightFormatsText(DeviceKind::kCpu));
}

}  // namespace kv8
