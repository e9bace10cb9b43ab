#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace kv8 {

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  std::size_t copied = 0;
  const auto escape = [&](std::size_t at, std::string_view with) {
    out.append(text.substr(copied, at - copied)).append(with);
    copied = at + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"') {
      escape(i, "\\\"");
    } else if (c == '\\') {
      escape(i, "\\\\");
    } else if (c == '\n') {
      escape(i, "\\n");
    } else if (c < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      const char code[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
      escape(i, {code, sizeof(code)});
    }
  }
  out.append(text.substr(copied)) += '"';
}

void JsonWriter::Separate() {
  if (!first_) *out_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  *out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  *out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  *out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(*out_, text);
  return *this;
}

JsonWriter& JsonWriter::Integer(std::int64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Number(float value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  *out_ += json;
  return *this;
}

}  // namespace kv8
