#include "progress_printer.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "output.h"

namespace kv8 {
namespace {

std::chrono::milliseconds Interval(bool terminal) {
  return std::chrono::seconds(terminal ? 1 : 10);
}

}  // namespace

ProgressPrinter::ProgressPrinter()
    : terminal_(::isatty(STDERR_FILENO) == 1), meter_(Interval(terminal_)) {}

void ProgressPrinter::Show(const CalibrationProgress& progress) {
  if (progress.pass != pass_) {
    EndLine();
    pass_ = progress.pass;
    meter_ = ProgressMeter(Interval(terminal_));
  }
  const auto line =
      meter_.Update(progress, std::chrono::steady_clock::now(), std::chrono::system_clock::now());
  if (!line) return;
  if (!terminal_) return Note(*line);
  // Back to the first column, and clear what a longer line left.
  std::fprintf(stderr, "\r%s\x1b[K", line->c_str());
  open_line_ = true;
}

void ProgressPrinter::EndLine() {
  if (open_line_) std::fputc('\n', stderr);
  open_line_ = false;
}

}  // namespace kv8
