// Statistics of the K and V values that a forward pass hands to the cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/observer.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// Adds what it sees to LayerStatistics: counts, maxima and histograms. Integers and maxima only,
/// so neither the cut into passes nor the number of threads leaves a trace.
class KvObserver : public ForwardObserver {
 public:
  /// `layers` must hold every layer that will be observed, ascending, and outlive the observer.
  KvObserver(ThreadPool& pool, std::vector<LayerStatistics>& layers)
      : pool_(pool), layers_(layers) {}

  /// What follows belongs to a document of this category. `where` names it in errors.
  void BeginDocument(const std::string& category, std::string where);

  void OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) override;

  /// kCorrupt, naming layer, side and document, once a value that is not finite was seen.
  Result<void> status() const;

 private:
  void Observe(int layer, char side_name, ConstMatrix values, SideStatistics& side);

  ThreadPool& pool_;
  std::vector<LayerStatistics>& layers_;
  std::string category_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace kv8
