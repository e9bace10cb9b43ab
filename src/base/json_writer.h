// Writes JSON text straight into a string, for answers that are too frequent to build as documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kv8 {

/// Appends `text` as a JSON string with its quotes. Bytes above 0x7F are copied: `text` must be
/// UTF-8.
void AppendJsonString(std::string& out, std::string_view text);

/// Puts commas where they belong and nothing else: the caller keeps objects and arrays balanced and
/// writes a key before each value of an object.
class JsonWriter {
 public:
  /// Appends to `out`, which must outlive the writer.
  explicit JsonWriter(std::string& out) : out_(&out) {}
  /// For a string that ends behind a member of an open object, or an element of an open array.
  static JsonWriter Continuing(std::string& out) {
    JsonWriter writer(out);
    writer.first_ = false;
    return writer;
  }

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& String(std::string_view text);
  JsonWriter& Integer(std::int64_t value);
  /// The shortest text that reads back as the same number; null for what is not finite.
  JsonWriter& Number(double value);
  JsonWriter& Number(float value);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  /// A value that is JSON text already.
  JsonWriter& Raw(std::string_view json);

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string* out_;
  bool first_ = true;  // nothing written yet at this level, or a key was just written
};

}  // namespace kv8
