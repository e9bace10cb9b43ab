#include "server/http/http_request.h"

#include <algorithm>

namespace kv8 {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    const bool same = std::equal(key.begin(), key.end(), name.begin(), name.end(),
                                 [](char left, char right) { return Lower(left) == Lower(right); });
    if (same) return value;
  }
  return {};
}

}  // namespace kv8
