#include "plan/remedy.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv8 {
namespace {

/// Most tokens of --max-model-len that fit, by halving; 0: not even one page.
std::int64_t LongestThatFits(PlanRequest request, const Fits& fits) {
  const std::int64_t asked = request.options.max_model_len;
  const std::int64_t length = asked > 0 ? asked : request.spec.max_positions;
  std::int64_t good = 0, bad = (length + kPageTokens - 1) / kPageTokens;  // in pages
  while (bad - good > std::max<std::int64_t>(1, good / 64)) {
    const std::int64_t middle = good + (bad - good) / 2;
    request.options.max_model_len = middle * kPageTokens;
    (fits(request) ? good : bad) = middle;
  }
  return good * kPageTokens;
}

}  // namespace

std::string RemedyFor(const PlanRequest& request, const CapacityPlan& plan, const Fits& fits) {
  PlanRequest changed = request;
  std::string flags;
  const auto with = [&](std::string_view flag) {
    flags += flags.empty() ? flag : fmt::format(" {}", flag);
    return fits(changed);
  };
  if (request.options.device == DeviceKind::kCuda) {
    changed.table = changed.embeddings = Place::kHost;
    const bool asked = request.table == Place::kDevice || request.embeddings == Place::kDevice;
    if (asked && with("--table-memory host --embedding-memory host")) return flags;
  } else if (request.spec.ple && request.table != Place::kDisk) {
    changed.table = Place::kDisk;
    if (with("--table-memory disk")) return flags;
  }
  if (request.options.kv_memory) {
    changed.options.kv_memory.reset();
    if (fits(changed)) return flags + (flags.empty() ? "" : " and ") + "a smaller --kv-memory";
  }
  if (request.options.max_num_seqs > 1) {
    changed.options.max_num_seqs = 1;
    if (with("--max-num-seqs 1")) return flags;
  }
  if (const std::int64_t longest = LongestThatFits(changed, fits); longest > 0) {
    with(fmt::format("--max-model-len {}", longest));
    return flags;
  }
  const std::int64_t missing = plan.misfit->needed - plan.misfit->budget;
  return fmt::format("{} bytes more on each device, more devices, or weights in fewer bits",
                     missing);
}

}  // namespace kv8
