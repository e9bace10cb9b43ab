#include "ops/routes.h"

#include "ops/cpu/simd_targets.h"  // before Highway

#include <fmt/format.h>
#include <hwy/highway.h>

#include <array>

#include "device/device.h"

namespace kv8 {
namespace {

/// The ops of a pass, as OpTable has them.
constexpr std::array<std::string_view, 14> kOps = {"embed",
                                                   "ple",
                                                   "head_norm_rope",
                                                   "linear",
                                                   "hyper_mix",
                                                   "hyper_combine",
                                                   "gdn_prefill",
                                                   "gdn_decode",
                                                   "kv_store",
                                                   "index_store",
                                                   "select_blocks",
                                                   "sparse_attention",
                                                   "moe",
                                                   "grouped_rms_norm"};

/// The best instruction set of the processor: the one that HWY_DYNAMIC_DISPATCH takes.
std::string BestTarget() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

std::string CpuCode(std::string_view backend) {
  if (!backend.empty() && backend != "simd") return std::string(backend);
  return "simd " + BestTarget();
}

std::string CudaCode(std::string_view backend) {
  const std::string name(backend.empty() ? "native" : backend);
  const auto devices = Device::List();
  if (!devices.ok() || devices->empty()) return name;
  return fmt::format("{} sm_{}", name, devices->front().architecture);
}

}  // namespace

std::vector<OpRoute> RoutesOf(DeviceKind device, std::string_view backend) {
  const std::string code = device == DeviceKind::kCuda ? CudaCode(backend) : CpuCode(backend);
  std::vector<OpRoute> routes;
  for (const std::string_view op : kOps) routes.push_back({op, code});
  return routes;
}

}  // namespace kv8
