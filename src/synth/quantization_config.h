// What config.json says about quantised weights, as the publishers of each format write it.
#pragma once

#include "base/json.h"
#include "synth/formats.h"

namespace kv8 {

/// Sets quantization_config, dtype and, where nothing else would tell the format of the n-gram
/// table, ple_embedding_dtype.
void DescribeFormats(const SynthFormats& formats, const ModelTensors& tensors, Json& config);

}  // namespace kv8
