#include "checkpoint/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace kv8 {

std::optional<std::int64_t> IntegerOf(const Json& value) {
  if (value.is_number_unsigned()) return CheckedCast<std::int64_t>(value.get<std::uint64_t>());
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

const Json* ConfigReader::Find(std::string_view key) const {
  const auto found = object_.find(key);
  if (found == object_.end() || found->is_null()) return nullptr;
  if (fields_ != nullptr && !found->is_object()) (*fields_)[prefix_ + std::string(key)] = *found;
  return &*found;
}

std::int64_t ConfigReader::Int(std::string_view key, std::int64_t min, std::int64_t max,
                               std::optional<std::int64_t> fallback) {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    Fail(Code::kCorrupt, key, "the key is missing");
    return min;
  }
  const auto number = IntegerOf(*value);
  if (!number || *number < min || *number > max) {
    Fail(Code::kCorrupt, key,
         fmt::format("is {}; must be an integer from {} to {}", JsonText(*value), min, max));
    return min;
  }
  return *number;
}

int ConfigReader::Extent(std::string_view key, int max) {
  return static_cast<int>(Int(key, 1, max));
}

double ConfigReader::Number(std::string_view key, double min, double max) {
  const Json* value = Find(key);
  if (value == nullptr) {
    Fail(Code::kCorrupt, key, "the key is missing");
    return min;
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    Fail(Code::kCorrupt, key,
         fmt::format("is {}; must be a number from {} to {}", JsonText(*value), min, max));
    return min;
  }
  return number;
}

void ConfigReader::RequireOneOf(std::string_view key,
                                std::initializer_list<std::string_view> supported, bool absent_ok) {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!absent_ok) Fail(Code::kCorrupt, key, "the key is missing");
    return;
  }
  const auto matches = [value](std::string_view s) {
    return value->is_string() && value->get_ref<const std::string&>() == s;
  };
  if (std::none_of(supported.begin(), supported.end(), matches)) {
    Fail(Code::kUnsupported, key,
         fmt::format("is {}; kv8 implements \"{}\"", JsonText(*value),
                     fmt::join(supported, "\", \"")));
  }
}

void ConfigReader::RequireBool(std::string_view key, bool supported) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    Fail(Code::kCorrupt, key, fmt::format("is {}; must be true or false", JsonText(*value)));
  } else if (value->get<bool>() != supported) {
    Fail(Code::kUnsupported, key, fmt::format("is {}; kv8 implements {}", !supported, supported));
  }
}

void ConfigReader::RequireAbsent(std::string_view key, std::string_view why) {
  const Json* value = Find(key);
  if (value != nullptr) {
    Fail(Code::kUnsupported, key, fmt::format("is {}; {}", JsonText(*value), why));
  }
}

void ConfigReader::Fail(Code code, std::string_view key, std::string what, std::string remedy) {
  if (error_) return;
  if (remedy.empty()) {
    remedy = code == Code::kUnsupported ? "use a checkpoint that kv8 supports"
                                        : "restore the file from the checkpoint's source";
  }
  error_ = Error{code, fmt::format("{} {}", key, what), WhereOf(key), std::move(remedy)};
}

Result<void> ConfigReader::status() const {
  if (error_) return *error_;
  return {};
}

std::string ConfigReader::WhereOf(std::string_view key) const {
  return fmt::format("{}: {}", where_, key);
}

}  // namespace kv8
