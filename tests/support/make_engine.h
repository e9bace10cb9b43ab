// An engine for a test that cannot go on without one.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>

#include "kv8/engine.h"

namespace kv8::test {

inline std::unique_ptr<Engine> MakeEngine(const EngineOptions& options) {
  auto engine = Engine::Create(options);
  if (!engine.ok()) throw std::runtime_error(engine.error().ToString());
  return std::move(engine).value();
}

}  // namespace kv8::test
