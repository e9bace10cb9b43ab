// The error of an op that has no kernel for what it is asked.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "kv8/error.h"

namespace kv8::cuda {

/// kUnsupported; `what` names the dimension, its value and what there is.
inline Error NoKernel(std::string_view op, std::string what) {
  return {Code::kUnsupported, std::move(what), std::string(op),
          "run this model on the CPU, or give the op such a kernel"};
}

}  // namespace kv8::cuda
