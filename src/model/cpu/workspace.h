// Activations of one forward pass, reused by every layer and every step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "ops/gdn.h"
#include "ops/ple.h"
#include "ops/qsa.h"
#include "tensor/model_spec.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Buffers for up to `rows` rows; their size depends on nothing else. Grows when asked for more.
class Workspace {
 public:
  explicit Workspace(const ModelSpec& config) : config_(config) {}

  /// Makes every view below `rows` rows long. Invalidates earlier views.
  void Resize(std::int64_t rows);
  std::int64_t bytes() const;
  /// What bytes() will be after the first Resize(rows).
  static std::int64_t PlannedBytes(const ModelSpec& config, std::int64_t rows);

  Matrix x;       // [T,H] input of a step
  Matrix y;       // [T,H] output of a step
  Matrix inject;  // [T,S]
  // GDN; C = conv channels
  Matrix qkv;  // [T,C]
  Matrix z;    // [T,Vh*Dv]
  Matrix b;    // [T,Vh]
  Matrix a;    // [T,Vh]
  // QSA
  Matrix query_gate;   // [T,Hq*2D]
  Matrix query;        // [T,Hq*D]
  Matrix key;          // [T,Hkv*D]
  Matrix value;        // [T,Hkv*D]
  Matrix index_qk;     // [T,(Hi+1)*Di]
  Matrix index_query;  // [T,Hi*Di]
  Matrix core;         // [T,max(Vh*Dv,Hq*D)] what the output projection reads
  // draft head
  Matrix draft_hidden;                  // [T,S*H]
  Matrix draft_embedding;               // [T,H]
  std::vector<std::int64_t> positions;  // [T]
  BlockSelection selection;
  // What each sequence of the batch is to one layer; here so that no layer takes memory of its own.
  std::vector<GdnSlice> gdn_slices;
  std::vector<QsaSlice> qsa_slices;
  std::vector<PleSlice> ple_slices;

 private:
  struct Field {
    Matrix* view;
    std::int64_t cols;
  };
  static constexpr std::size_t kFields = 16;
  std::array<Field, kFields> Fields();

  ModelSpec config_;
  AlignedVector<float> floats_;
  std::vector<std::int32_t> selected_;
};

}  // namespace kv8
