// Every op of the model and the backends that implement it.
#pragma once

#include <string_view>

#include "kv8/error.h"
#include "ops/gdn.h"
#include "ops/hyper_connection.h"
#include "ops/kv_observe.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/op_sizes.h"
#include "ops/ple.h"
#include "ops/qsa.h"

namespace kv8 {

/// What calls within these sizes take of their OpContext's scratch, exactly: some call takes all.
using ScratchFn = ScratchSize(const OpSizes& sizes);

/// One backend: one implementation of each contract.
struct OpTable {
  std::string_view name;
  ScratchFn* scratch;
  EmbedFn* embed;
  PleFn* ple;
  GroupedRmsNormFn* grouped_rms_norm;
  HeadNormRopeFn* head_norm_rope;
  LinearFn* linear;
  HyperMixFn* hyper_mix;
  HyperCombineFn* hyper_combine;
  GdnFn* gdn_prefill;
  GdnFn* gdn_decode;
  KvStoreFn* kv_store;
  KvObserveFn* kv_observe;
  IndexStoreFn* index_store;
  SelectBlocksFn* select_blocks;
  SparseAttentionFn* sparse_attention;
  MoeFn* moe;
};

/// Backend by name: "simd" (Highway; also without a name) or "reference" (the plain oracles).
/// Errors: kUnsupported, listing the names that exist.
Result<const OpTable*> FindOps(std::string_view name);

}  // namespace kv8
