// Python's operators on values.
#pragma once

#include <compare>
#include <string_view>

#include "jinja/value.h"

namespace kv8::jinja {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

std::string_view Spelling(Operator op);

bool Equal(const Value& left, const Value& right);

/// Order of numbers, strings, lists and tuples. Errors: values that Python does not order.
Result<std::partial_ordering> Order(const Value& left, const Value& right, Operator op);

/// `left op right`. `work` grows with what it took beyond one step. Errors: types that do not go
/// together, division by zero, an integer beyond 64 bits, a result above the limits.
Result<Value> Apply(Operator op, const Value& left, const Value& right, std::uint64_t& work);

Result<Value> Negate(const Value& value);

/// `item in container`.
Result<bool> Contains(const Value& container, const Value& item);

/// Largest string that an operation may make.
inline constexpr std::size_t kMaxStringBytes = std::size_t{16} << 20;
Error StringTooLong();

}  // namespace kv8::jinja
