// ParseEvaluationLine on any line: no crash, and what is accepted is what its header says.
#include <cstdint>
#include <cstdlib>

#include "proof/evaluation_corpus.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto line =
      kv8::ParseEvaluationLine({reinterpret_cast<const char*>(data), size}, "input:1");
  if (!line.ok()) {
    if (line.error().where != "input:1" || line.error().what.empty()) std::abort();
    return 0;
  }
  if (line->answer && line->answer->empty()) std::abort();
  if (!line->answer && (line->tool || line->depth)) std::abort();
  if (line->depth && !(*line->depth >= 0 && *line->depth <= 1)) std::abort();
  return 0;
}
