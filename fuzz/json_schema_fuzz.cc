// CompileJsonSchema on any JSON: no crash, no hang, and what it compiles can be walked; a text that
// it reaches by always taking an allowed byte is JSON when it is complete.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "grammar/json_schema.h"
#include "grammar/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (size > kv8::kMaxSchemaBytes) return 0;
  const auto schema = kv8::ParseOrderedJson(input, "fuzz");
  if (!schema.ok()) return 0;
  const auto program = kv8::CompileJsonSchema(*schema);
  if (!program.ok()) return 0;
  kv8::Machine machine(*program);
  kv8::StateId state = machine.start();
  std::string text;
  // The input chooses among the allowed bytes; what closes comes last, so it is tried first.
  for (std::size_t i = 0; i < 200 && !machine.finished(state); ++i) {
    const std::size_t from = i < 20 ? data[i % size] : 255;
    std::size_t byte = from;
    kv8::StateId next = kv8::kDeadState;
    for (std::size_t tried = 0; tried < 256 && next == kv8::kDeadState; ++tried) {
      byte = (from + 256 - tried) % 256;
      next = machine.Step(state, static_cast<std::uint8_t>(byte));
    }
    if (machine.spent()) return 0;
    if (next == kv8::kDeadState) std::abort();
    text.push_back(static_cast<char>(byte));
    state = next;
    if (!machine.complete(state)) continue;
    const auto value = kv8::ParseOrderedJson(text, "generated");
    const bool allowed = value.ok() || value.error().what.find("duplicate") != std::string::npos ||
                         value.error().what.find("nested deeper") != std::string::npos;
    if (!allowed) std::abort();
  }
  return 0;
}
