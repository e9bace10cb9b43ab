#include "interrupt.h"

#include <csignal>

namespace kv8 {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void NoteSignal(int /*number*/) {
  interrupted = 1;
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = NoteSignal;
  // The default action comes back after the first signal, so that a second one always ends kv8.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() {
  return interrupted != 0;
}

Error InterruptedError() {
  return Error{.code = Code::kCancelled, .what = "stopped by a signal", .where = "", .remedy = ""};
}

}  // namespace kv8
