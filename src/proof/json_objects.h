// Arrays of objects in the files of finished measurements.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fields.h"
#include "kv8/error.h"

namespace kv8 {

/// Calls `read(fields, &item)` for each object of the array at `key`. Errors: those of JsonFields
/// and of `read`.
template <class T, class Read>
Result<std::vector<T>> Objects(const JsonFields& fields, std::string_view key, const Read& read) {
  KV8_ASSIGN_OR_RETURN(const Json* const array, fields.Array(key));
  std::vector<T> items;
  for (const Json& value : *array) {
    KV8_ASSIGN_OR_RETURN(const JsonFields item,
                         JsonFields::Of(value, fields.where(), fields.PathOf(key)));
    T read_item;
    KV8_RETURN_IF_ERROR(read(item, &read_item));
    items.push_back(std::move(read_item));
  }
  return items;
}

}  // namespace kv8
