// Ctrl-C and `kill`, turned into a question that long work asks.
#pragma once

#include "kv8/error.h"

namespace kv8 {

/// From now on SIGINT and SIGTERM are noted instead of ending the process; the second one ends it.
void CatchInterrupts();

/// Whether one of them arrived.
bool Interrupted();

/// The kCancelled error of a run that stopped because of it. `kept` says what is left of the work
/// and how to go on; it may be empty.
Error InterruptedError(const char* kept);

}  // namespace kv8
