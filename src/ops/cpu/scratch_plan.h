// What each of the fast CPU ops takes of its scratch, at most. Each stands beside the code that
// takes it and calls the same function for the layout.
#pragma once

#include "ops/op_sizes.h"
#include "ops/scratch.h"

namespace kv8::simd {

ScratchSize LinearScratch(const OpSizes& sizes);
ScratchSize HyperMixScratch(const OpSizes& sizes);
ScratchSize HeadNormRopeScratch(const OpSizes& sizes);
ScratchSize GdnScratch(const OpSizes& sizes);
ScratchSize IndexStoreScratch(const OpSizes& sizes);
ScratchSize SelectBlocksScratch(const OpSizes& sizes);
ScratchSize SparseAttentionScratch(const OpSizes& sizes);
ScratchSize MoeScratch(const OpSizes& sizes);
ScratchSize PleScratch(const OpSizes& sizes);

/// The most of all of them: see OpTable::scratch.
ScratchSize PlanScratch(const OpSizes& sizes);

}  // namespace kv8::simd
