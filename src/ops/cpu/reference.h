// The plain implementations of every op: one formula after another, double precision inside, one
// thread. Oracles of the fast ones, and the backend "reference".
#pragma once

#include "ops/gdn.h"
#include "ops/hyper_connection.h"
#include "ops/kv_observe.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/op_sizes.h"
#include "ops/ple.h"
#include "ops/qsa.h"

namespace kv8::reference {

EmbedFn Embed;
PleFn Ple;
GroupedRmsNormFn GroupedRmsNorm;
HeadNormRopeFn ApplyHeadNormRope;
LinearFn Linear;
HyperMixFn HyperMix;
HyperCombineFn HyperCombine;
GdnFn GdnPrefill;
GdnFn GdnDecode;
KvStoreFn KvStore;
KvObserveFn KvObserve;
IndexStoreFn IndexStore;
SelectBlocksFn SelectBlocks;
SparseAttentionFn SparseAttention;
MoeFn Moe;

/// They allocate what they need: they are not made for speed or size.
inline ScratchSize PlanScratch(const OpSizes&) {
  return {};
}

}  // namespace kv8::reference
