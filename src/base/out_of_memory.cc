#include "base/out_of_memory.h"

#include <string>
#include <string_view>

namespace kv8 {
namespace {

constexpr std::string_view kMemory = "memory";  // where it is that an error was

}  // namespace

Error OutOfMemoryError() {
  return Error{Code::kResourceExhausted, "there is not enough memory for this request",
               std::string(kMemory), "try again later, or send a smaller one"};
}

bool IsOutOfMemory(const Error& error) {
  return error.code == Code::kResourceExhausted && error.where == kMemory;
}

}  // namespace kv8
