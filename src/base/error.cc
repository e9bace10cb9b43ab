#include "kv8/error.h"

namespace kv8 {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kTooLong:
      return "too long";
    case Code::kNotFound:
      return "not found";
    case Code::kAlreadyExists:
      return "already exists";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kMismatch:
      return "mismatch";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kIo:
      return "input/output";
    case Code::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string Error::ToString() const {
  std::string text;
  if (!where.empty()) text += where + ": ";
  text += what;
  if (!remedy.empty()) text += "\n  try: " + remedy;
  return text;
}

}  // namespace kv8
