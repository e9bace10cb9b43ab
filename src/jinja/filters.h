// The filters, by what they work on, and what they share with methods.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/natives.h"
#include "jinja/python_text.h"

namespace kv8::jinja {

std::vector<Native> TextFilters();
std::vector<Native> SequenceFilters();   // of items, in their order
std::vector<Native> SelectionFilters();  // that choose or transform items by filters and tests
std::vector<Native> OrderFilters();      // that compare items
std::vector<Native> NumberFilters();

/// Replace (python_text.h) within the limits.
Result<Value> BoundedReplace(Runtime& runtime, const MarkedText& text, std::string_view from,
                             const MarkedText& to, std::int64_t most);

/// `text` in a field of `width` characters; `padded` says where the fill goes.
Result<Value> PadText(const Value& text, std::int64_t width, const Value& fill, Side padded);

}  // namespace kv8::jinja
