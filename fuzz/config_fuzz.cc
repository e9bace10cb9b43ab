// ReadModelSpec and the parsers of generation_config.json on any text: no crash, and an accepted
// configuration keeps the promises that later arithmetic relies on.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/generation_config.h"
#include "family/model_config.h"
#include "family/ple_constants.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = kv8::ParseJson({reinterpret_cast<const char*>(data), size}, "input");
  if (!json.ok()) return 0;
  if (kv8::ParseStopIds(*json, 6144, "input").ok()) {
    const auto defaults = kv8::ParseGenerationDefaults(*json, "input");
    Require(!defaults.ok() || !defaults->top_p || *defaults->top_p > 0);
  }
  const auto config = kv8::ReadModelSpec(*json, "input");
  if (!config.ok()) return 0;
  Require(config->GdnLayers() + config->KvLayers(false) == config->layer_count());
  Require(config->qsa.query_heads % config->qsa.kv_heads == 0);
  Require(config->gdn.value_heads % config->gdn.key_heads == 0);
  Require(config->qsa.rotary_dim % 2 == 0 && config->qsa.rotary_dim <= config->qsa.index_dim);
  Require(config->qsa.budget_selection_blocks >= 1 && config->streams > 1);
  if (!config->ple) return 0;
  Require(config->eos.has_value() && config->ple->embed_dim % config->ple->heads() == 0);
  for (std::size_t i = 0; i < config->ple->layers.size(); ++i) {
    const auto constants =
        kv8::DerivePleConstants(*config->ple, config->vocab, static_cast<int>(i));
    Require(constants.padded_rows <= INT32_MAX);
  }
  return 0;
}
