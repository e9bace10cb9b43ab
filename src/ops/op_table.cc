#include "ops/op_table.h"

#include <string>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

namespace kv8 {
namespace {

constexpr OpTable kBackends[] = {
    {
        .name = "simd",
        .scratch = &simd::PlanScratch,
        .embed = &simd::Embed,
        .ple = &simd::Ple,
        .grouped_rms_norm = &simd::GroupedRmsNorm,
        .head_norm_rope = &simd::ApplyHeadNormRope,
        .linear = &simd::Linear,
        .hyper_mix = &simd::HyperMix,
        .hyper_combine = &simd::HyperCombine,
        .gdn_prefill = &simd::GdnPrefill,
        .gdn_decode = &simd::GdnDecode,
        .kv_store = &simd::KvStore,
        .kv_observe = &simd::KvObserve,
        .index_store = &simd::IndexStore,
        .select_blocks = &simd::SelectBlocks,
        .sparse_attention = &simd::SparseAttention,
        .moe = &simd::Moe,
    },
    {
        .name = "reference",
        .scratch = &reference::PlanScratch,
        .embed = &reference::Embed,
        .ple = &reference::Ple,
        .grouped_rms_norm = &reference::GroupedRmsNorm,
        .head_norm_rope = &reference::ApplyHeadNormRope,
        .linear = &reference::Linear,
        .hyper_mix = &reference::HyperMix,
        .hyper_combine = &reference::HyperCombine,
        .gdn_prefill = &reference::GdnPrefill,
        .gdn_decode = &reference::GdnDecode,
        .kv_store = &reference::KvStore,
        .kv_observe = &reference::KvObserve,
        .index_store = &reference::IndexStore,
        .select_blocks = &reference::SelectBlocks,
        .sparse_attention = &reference::SparseAttention,
        .moe = &reference::Moe,
    },
};

}  // namespace

Result<const OpTable*> FindOps(std::string_view name) {
  std::string names;
  for (const OpTable& backend : kBackends) {
    if (name.empty() || backend.name == name) return &backend;
    names += (names.empty() ? "" : ", ") + std::string(backend.name);
  }
  return Error{Code::kUnsupported, "no op backend named '" + std::string(name) + "'", "op backend",
               "use one of: " + names};
}

}  // namespace kv8
