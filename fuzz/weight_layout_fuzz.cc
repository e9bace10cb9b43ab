// Matrices of any safetensors file in every layout: no crash, and what is accepted can be decoded
// to its last element. Its metadata, where it is JSON, is read as a quantization_config.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "checkpoint/quantization_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_layout.h"
#include "tensor/weight_row.h"

namespace {

void Decode(const kv8::Weight& weight) {
  constexpr std::int64_t kMaxCols = 1 << 20;
  if (weight.rows <= 0 || weight.cols <= 0 || weight.cols > kMaxCols) return;
  std::vector<float> row(static_cast<std::size_t>(weight.cols));
  kv8::DecodeRow(weight, 0, row.data());
  kv8::DecodeRow(weight, weight.rows - 1, row.data());
}

void Load(const kv8::TensorMap& tensors, std::string_view stem) {
  const kv8::WeightParts parts(tensors, stem, "t.");
  if (parts.parts().empty()) return;
  const auto layout = kv8::LayoutOf(parts);
  if (!layout.ok()) return;
  const auto described = (*layout)->describe(parts);
  if (!described.ok()) return;
  for (const auto zeros : {kv8::GptqZeros::kLessOne, kv8::GptqZeros::kPlain}) {
    kv8::WeightCopies copies;
    const auto weight = (*layout)->load(parts, *described, zeros, copies);
    if (!weight.ok()) continue;
    if (weight->rows != described->rows || weight->cols != described->cols) std::abort();
    Decode(*weight);
  }
}

void ReadConfig(std::string_view text) {
  const auto json = kv8::ParseJson(text, "metadata");
  if (!json.ok()) return;
  const auto config = kv8::QuantizationConfig::Parse(*json, "metadata");
  if (!config.ok()) return;
  const std::string_view names[] = {"model.layers.0.mlp.experts.0.gate_proj", "lm_head"};
  const kv8::QuantizationClaim claim = config->ClaimOf(names);
  if (claim.scheme != nullptr && !claim.ignored_by.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto content = kv8::ParseSafetensors(bytes, "input");
  if (!content.ok()) return 0;
  std::set<std::string_view> stems;
  for (const auto& [name, view] : content->tensors) stems.insert(kv8::StemOf(name));
  for (const std::string_view stem : stems) Load(content->tensors, stem);
  for (const auto& [key, value] : content->metadata) ReadConfig(value);
  return 0;
}
