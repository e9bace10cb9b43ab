#include "ops/cpu/scratch_plan.h"

namespace kv8::simd {

ScratchSize PlanScratch(const OpSizes& sizes) {
  ScratchSize most;
  for (const auto& op :
       {LinearScratch, HyperMixScratch, HeadNormRopeScratch, GdnScratch, IndexStoreScratch,
        SelectBlocksScratch, SparseAttentionScratch, MoeScratch, PleScratch}) {
    most.Cover(op(sizes));
  }
  return most;
}

}  // namespace kv8::simd
