// Memory of the paged K/V and index pools of every QSA layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv8/error.h"
#include "kvcache/layout.h"
#include "tensor/layer_config.h"

namespace kv8 {

/// What the pools will take; known before anything is allocated.
struct KvCachePlan {
  KvLayout kv;
  IndexLayout index;
  std::int64_t layers = 0;  // QSA layers, the draft layer last when there is one
  std::int64_t pages = 0;   // per layer

  /// Plan for `tokens` tokens, rounded up to whole pages.
  static KvCachePlan ForTokens(const QsaConfig& qsa, KvDType dtype, std::int64_t layers,
                               std::int64_t tokens);

  std::int64_t kv_bytes() const { return layers * pages * kv.page_bytes(); }
  std::int64_t index_bytes() const { return layers * pages * index.page_bytes(); }
  std::int64_t kv_bytes_per_token() const { return layers * kv.page_bytes() / kPageTokens; }
  /// Bytes of one page over all layers, K/V and index keys.
  std::int64_t page_bytes() const { return layers * (kv.page_bytes() + index.page_bytes()); }
};

/// Scales of one layer as the stores use them.
struct StoreScales {
  float k = 1.0f;
  float v = 1.0f;
};

/// Owns exactly plan.kv_bytes() + plan.index_bytes(). Move-only.
class KvCache {
 public:
  /// `scales` holds one entry per layer for kE4M3 and is empty for the other types.
  /// Errors: kResourceExhausted with the byte count.
  static Result<KvCache> Create(const KvCachePlan& plan, std::vector<StoreScales> scales);

  const KvCachePlan& plan() const { return plan_; }
  KvPages Kv(int layer, std::span<const PageId> pages);
  IndexPages Index(int layer, std::span<const PageId> pages);
  /// Copies whole pages to or from host memory of pages.size() * plan().page_bytes().
  void CopyOut(std::span<const PageId> pages, std::span<std::byte> to) const;
  void CopyIn(std::span<const std::byte> from, std::span<const PageId> pages);
  /// Copies one page to another, in every pool.
  void CopyPage(PageId from, PageId to);
  /// Clipped values so far, per layer.
  std::vector<SaturationCount>& saturation() { return saturation_; }
  const std::vector<SaturationCount>& saturation() const { return saturation_; }

 private:
  struct Unmap {
    Unmap() : bytes(0) {}
    explicit Unmap(std::size_t n) : bytes(n) {}
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };

  KvCache() = default;
  /// Calls visit(memory, bytes) for each piece of a page, in a fixed order.
  template <class Visit>
  void ForEachPiece(PageId page, Visit&& visit) const;

  KvCachePlan plan_;
  std::vector<StoreScales> scales_;
  std::vector<SaturationCount> saturation_;
  std::unique_ptr<std::byte, Unmap> memory_;  // all K/V pools, then all index pools
};

}  // namespace kv8
