// CompileRegex on any text: no crash, no hang, and every text that it is walked to can be completed
// or is left at once.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "grammar/json_schema.h"
#include "grammar/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first half is the expression, the second is read with it.
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t half = size - size / 4;
  const auto program = kv8::CompileRegex(input.substr(0, half));
  if (!program.ok()) return 0;
  kv8::Machine machine(*program);
  kv8::StateId state = machine.start();
  for (const char byte : input.substr(half)) {
    if (state == kv8::kDeadState) break;
    if (!machine.complete(state) && machine.finished(state)) std::abort();
    state = machine.Step(state, static_cast<std::uint8_t>(byte));
  }
  return 0;
}
