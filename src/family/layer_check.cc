#include "family/layer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace kv8 {
namespace {

constexpr std::string_view kLayers = "model.layers.";

/// Why `rest`, a tensor's name after "model.layers.", is of no layer of the model; empty when it
/// is.
std::string WhyUnknown(std::string_view rest, const ModelSpec& config) {
  int layer = 0;
  const char* const end = rest.data() + rest.size();
  const auto [after, problem] = std::from_chars(rest.data(), end, layer);
  if (problem != std::errc() || after == end || *after != '.') return {};
  if (layer >= config.layer_count())
    return fmt::format("num_hidden_layers is {}", config.layer_count());
  const std::string_view part(after, static_cast<std::size_t>(end - after));
  if (!part.starts_with(".ple.")) return {};
  const bool has_ple =
      config.ple && std::count(config.ple->layers.begin(), config.ple->layers.end(), layer) > 0;
  return has_ple ? "" : fmt::format("ple_layer_ids does not hold {}", layer + 1);
}

}  // namespace

Result<void> CheckLayersAreKnown(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  for (auto it = tensors.lower_bound(kLayers); it != tensors.end(); ++it) {
    const std::string_view name = it->first;
    if (!name.starts_with(kLayers)) break;
    const std::string why = WhyUnknown(name.substr(kLayers.size()), checkpoint.config());
    if (why.empty()) continue;
    return Error{Code::kMismatch, fmt::format("exists, but {}", why),
                 TensorPlace(checkpoint.FileOf(name).string(), name),
                 "check that config.json belongs to these weights"};
  }
  return {};
}

}  // namespace kv8
