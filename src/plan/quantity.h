// Numbers with units, as people write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// "24G", "24GB", "24GiB", "80.5GB", "6553497600": bytes. K, M, G, T are powers of 1000, with or
/// without a B behind; KiB, MiB, GiB, TiB powers of 1024. At least 1 byte, below 2^60.
/// Errors: kInvalidArgument, with the units that exist.
Result<std::int64_t> ParseBytes(std::string_view text);

/// A rate per second, such as "900G" or "125T"; units as ParseBytes, without the i forms.
Result<double> ParseRate(std::string_view text);

}  // namespace kv8
