// Activations of one pass on the GPU, at addresses that never change.
#pragma once

#include <cstdint>

#include "device/arena.h"
#include "ops/cuda/choose_tokens.h"
#include "ops/cuda/kv_observe.h"
#include "ops/cuda/moe.h"
#include "ops/cuda/slots.h"
#include "tensor/model_spec.h"

namespace kv8::cuda {

/// Rows that selection and attention take at a time: bounds their scratch.
inline constexpr std::int32_t kAttentionRows = 512;

/// What the buffers are for.
struct WorkspaceSize {
  std::int64_t rows = 0;                  // of a pass
  std::int64_t prefill_slices = 0;        // likewise, at most: the slots
  std::int64_t logit_rows = 0;            // of one call
  std::int64_t max_selection_blocks = 0;  // selection blocks of the longest sequence
  bool with_draft = false;
  std::int64_t observed_heads = 0;  // ObservedHeads when K and V are counted
  std::int64_t activation_parts = 1;
};

/// T rows, S streams, H hidden, W = S*H; scratch of steps that never run at once shares its place.
struct DeviceWorkspace {
  float* streams;              // [T,W] residual streams of the target
  float* draft_streams;        // [T,W]; the rest of the draft head's only when it runs
  float* draft_input;          // [T,W]
  float* draft_normed;         // [T,W]
  float* draft_embedding;      // [T,H]
  float* ones;                 // [T,S]
  float* token_streams;        // [logit rows,W]
  float* logits;               // [logit rows,V]
  std::uint64_t* best_parts;   // [logit rows,parts] of Argmax
  std::int32_t* best_tickets;  // [logit rows]; zero between calls
  std::int32_t* best_tokens;   // [logit rows] the most likely, or what replaced it
  struct {
    ChoiceRule* rules;  // [logit rows]
    std::uint64_t *weights, *list;
    std::uint32_t* counts;
    ChoiceRow* state;
  } choice;            // of ChooseTokens
  CopyArray* gathers;  // [4] between streams: see CudaExecutor
  struct {
    MagnitudeCell* cells;     // of Log2Bins
    HeadMagnitudes* heads;    // [observed heads]; all null where nothing is counted
    std::uint32_t* max_bits;  // [slots,observed heads]
  } magnitudes;
  float *x, *y;            // [T,H] input and output of a step
  std::uint16_t* rounded;  // the input of any product, as LinearArgs has it
  float* inject;           // [T,S]
  struct {
    float *normed, *parts, *low;  // [T,W], [T,W], [T,r]
    std::uint16_t* rounded_low;   // [activation parts,T,r]
  } hyper;
  struct {
    float *memory, *keys, *values, *gated, *normed;  // [T,E], [T,W], [T,H], [T,W], [T,W]
  } ple;
  struct {
    float *qkv, *z, *b, *a, *convolved, *chunks, *core;
  } gdn;
  struct {
    float *query_gate, *query, *key, *value, *index_qk, *index_query, *core;
    float *scores, *partials, *softmax;  // of kAttentionRows rows
    std::int32_t *blocks, *counts;       // likewise
    std::int32_t* tickets;               // likewise; zero between calls
  } qsa;
  struct {
    float *logits, *weights, *expert_hidden, *expert_out;
    float *shared_hidden, *shared_gate, *shared_out;
    std::int32_t *chosen, *counts, *cursors, *begins, *pairs;  // counts: zero between calls
    ExpertTile* tiles;
  } moe;

  static DeviceWorkspace Take(Arena& arena, const ModelSpec& config, const WorkspaceSize& size);
};

}  // namespace kv8::cuda
