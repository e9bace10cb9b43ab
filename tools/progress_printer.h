// Progress of long work on standard error.
#pragma once

#include <string>

#include "calib/progress.h"

namespace kv8 {

/// One line that renews itself on a terminal, else a line now and then.
class ProgressPrinter {
 public:
  ProgressPrinter();
  ~ProgressPrinter() { EndLine(); }
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void Show(const CalibrationProgress& progress);

 private:
  void EndLine();

  bool terminal_;
  ProgressMeter meter_;
  std::string pass_;
  bool open_line_ = false;
};

}  // namespace kv8
