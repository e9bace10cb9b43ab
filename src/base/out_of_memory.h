// The error of a request for which there is no memory.
#pragma once

#include "kv8/error.h"

namespace kv8 {

/// kResourceExhausted, and told from limits by IsOutOfMemory.
Error OutOfMemoryError();
bool IsOutOfMemory(const Error& error);

}  // namespace kv8
