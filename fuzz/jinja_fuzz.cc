// Any bytes as a template, rendered with a conversation: the result is a text or an error that
// names a line, in bounded time and memory, and the same every time.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "base/utf8.h"
#include "jinja/json_text.h"
#include "jinja/template.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

/// No character that only the conversation has passes as the template's own.
void RequireAuthors(const kv8::MarkedText& text, std::string_view source) {
  constexpr std::string_view kTheirs = "\u00fc";
  // Escapes and character references could write it too, and changes of case make it.
  if (source.find_first_of("\\&") != source.npos || source.find("\u00dc") != source.npos ||
      source.find(kTheirs) != source.npos) {
    return;
  }
  text.ForEachRun([kTheirs](std::string_view run, kv8::Author author) {
    Require(author != kv8::Author::kTemplate || run.find(kTheirs) == run.npos);
  });
}

const kv8::jinja::Template::Variables& Conversation() {
  static const auto variables = [] {
    const auto json = kv8::ParseOrderedJson(R"({
      "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Gr\u00fc\u00dfe"},
        {"role": "assistant", "content": null, "tool_calls": [
          {"function": {"name": "f", "arguments": {"x": 1.5, "y": [true, null]}}}]},
        {"role": "user", "content": [{"type": "text", "text": "U"}]}],
      "tools": [{"function": {"name": "f", "parameters": {"type": "object"}}}],
      "add_generation_prompt": true, "n": 7, "bos_token": "<s>"})",
                                            "conversation");
    kv8::jinja::Template::Variables out;
    for (const auto& [name, value] : json->items()) {
      out.emplace_back(name, kv8::jinja::FromJson(value).value());
    }
    return out;
  }();
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = kv8::jinja::Template::Parse(source, "t");
  if (!parsed.ok()) {
    Require(parsed.error().where.starts_with("t:"));
    return 0;
  }
  kv8::jinja::Limits limits;
  limits.work = 20000;
  limits.output_bytes = 100000;
  limits.depth = 100;
  const auto text = parsed->Render(Conversation(), limits);
  Require(text.ok() || text.error().where.starts_with("t:"));
  if (text.ok()) Require(!kv8::FirstInvalidUtf8(text->text()).has_value());
  if (text.ok()) RequireAuthors(*text, source);
  if (source.find("strftime_now") != source.npos) return 0;
  const auto again = parsed->Render(Conversation(), limits);
  Require(again.ok() == text.ok() && (!text.ok() || again->text() == text->text()));
  return 0;
}
