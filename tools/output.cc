#include "output.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "printable.h"

namespace kv8 {

Result<void> WriteText(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return {};
  return SystemError("standard output", "write", errno);
}

Result<void> WriteLines(std::string_view lines) {
  return WriteText(Printable(lines, "\n\t"));
}

Result<void> WriteJson(const Json& json) {
  return WriteText(PrintableJson(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n");
}

void Note(std::string_view line) {
  // Nothing sensible can be done when standard error is closed.
  std::fputs((Printable(line, "\n") + "\n").c_str(), stderr);
}

}  // namespace kv8
