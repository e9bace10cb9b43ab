// Ctrl-C and `kill`, turned into a question that long work asks.
#pragma once

#include "kv8/error.h"

namespace kv8 {

/// From now on SIGINT and SIGTERM are noted instead of ending the process; the second one ends it.
void CatchInterrupts();

/// Whether one of them arrived.
bool Interrupted();

/// The kCancelled error of a run that stopped because of it.
Error InterruptedError();

}  // namespace kv8
