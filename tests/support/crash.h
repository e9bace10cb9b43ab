// Ending a piece of work at a chosen step: by an error, or by killing the process it runs in.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>

#include "base/staged_directory.h"

namespace kv8::test {

/// A hook that calls `action` at step number `step`, counted from 0.
inline StepHook AtStep(int step, std::function<Result<void>()> action) {
  auto seen = std::make_shared<int>(0);
  return [=](std::string_view) { return (*seen)++ == step ? action() : Result<void>(); };
}

inline StepHook FailAt(int step) {
  return AtStep(step, [] { return Error{Code::kIo, "injected", "hook", "none"}; });
}

/// Runs `work` in a child process that is killed at `step`. False when it ended before.
inline bool KilledAt(int step, const std::function<bool(StepHook)>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool ok = work(AtStep(step, []() -> Result<void> {
      ::raise(SIGKILL);
      return {};
    }));
    ::_exit(ok ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return true;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the work failed without a kill";
  return false;
}

/// Runs `work` in a child whose files may not grow beyond `bytes`, as on a full disk; returns what
/// it returned.
inline bool WithFileLimit(rlim_t bytes, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace kv8::test
