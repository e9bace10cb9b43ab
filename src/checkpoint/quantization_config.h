// The quantization_config of a checkpoint: what of it says nothing about weights.
#pragma once

#include <string>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Takes one that quantises the K/V cache alone, to E4M3 with one scale per layer and side, or
/// nothing: such a checkpoint has plain weights, and scales that a run may use or leave. Every
/// other key is refused by name. `where` names the file and the key. Errors: kUnsupported.
Result<void> CheckQuantizationConfig(const Json& config, const std::string& where);

}  // namespace kv8
