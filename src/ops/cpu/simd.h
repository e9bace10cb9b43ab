// The fast CPU implementations: Highway, compiled for several instruction sets, the best one chosen
// at run time.
#pragma once

#include "ops/gdn.h"
#include "ops/hyper_connection.h"
#include "ops/kv_observe.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/ple.h"
#include "ops/qsa.h"

namespace kv8::simd {

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

}  // namespace kv8::simd
