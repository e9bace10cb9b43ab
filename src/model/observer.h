// Looking at values inside a forward pass: calibration and tests against reference values.
#pragma once

#include "ops/qsa.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Every hook gets views that are valid during the call only. Layer numbers are the checkpoint's;
/// the draft layer has number = target layers.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  /// What the cache store gets: K after norm and RoPE, V as projected. k, v [T,kv_heads*head_dim].
  virtual void OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) {
    (void)layer, (void)k, (void)v;
  }
  /// Selection blocks chosen for each row.
  virtual void OnSelection(int layer, const BlockSelection& selection) {
    (void)layer, (void)selection;
  }
  /// What attention leaves, after its gate and before the output projection,
  /// [T,query_heads*head_dim].
  virtual void OnAttention(int layer, ConstMatrix output) { (void)layer, (void)output; }
  /// Residual streams after the layer, [T,S*H].
  virtual void OnStreams(int layer, ConstMatrix streams) { (void)layer, (void)streams; }
};

}  // namespace kv8
