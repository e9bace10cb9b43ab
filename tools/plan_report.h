// What `kv8 plan` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/capacity.h"
#include "plan/estimate.h"
#include "plan/vllm_layout.h"

namespace kv8 {

/// The same pool in vLLM's layout and in kv8's.
struct VllmComparison {
  KvDType dtype = KvDType::kFp16;
  std::int64_t pool_bytes = 0;
  VllmPool pool;
  std::int64_t kv8_tokens = 0;
};

/// One line about speed.
struct SpeedRow {
  bool prompt = false;
  std::int64_t context = 0;
  std::int64_t sequences = 1;
  double tokens_per_second = 0;
  PassTime pass;
};

struct PlanReport {
  std::string source;  // of the model
  PlanRequest request;
  std::vector<StageModel> stages;
  std::vector<CapacityPlan> caches;  // one per type
  std::vector<std::string> not_run_yet;
  std::vector<VllmComparison> vllm;
  std::optional<Rates> rates;
  std::vector<SpeedRow> speed;
};

Json PlanJson(const PlanReport& report);
std::string PlanText(const PlanReport& report);

}  // namespace kv8
