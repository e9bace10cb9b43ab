#include "jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "jinja/python_format.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

Error BadOperands(Operator op, const Value& left, const Value& right) {
  if (left.Is(Kind::kUndefined)) return UndefinedError(left);
  if (right.Is(Kind::kUndefined)) return UndefinedError(right);
  if (op >= Operator::kLess && op <= Operator::kGreaterEqual) {
    return Failure(fmt::format("'{}' not supported between instances of '{}' and '{}'",
                               Spelling(op), left.TypeName(), right.TypeName()));
  }
  return Failure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", Spelling(op),
                             left.TypeName(), right.TypeName()));
}

Error TooLargeInt() {
  return Error{Code::kUnsupported, "an integer does not fit into 64 bits", "", ""};
}

Error DivisionByZero() {
  return Failure("division by zero");
}

std::int64_t FloorDivide(std::int64_t left, std::int64_t right) {
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::int64_t FloorModulo(std::int64_t left, std::int64_t right) {
  if (right == -1) return 0;  // the smallest integer over it has no quotient
  const std::int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double FloorModulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

/// `base` to a power that is not negative; nullopt on overflow.
std::optional<std::int64_t> Power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::optional<std::int64_t> square = base; exponent > 0; exponent >>= 1) {
    if (exponent & 1) {
      if (!square) return std::nullopt;
      const auto product = CheckedMul(result, *square);
      if (!product) return std::nullopt;
      result = *product;
    }
    if (square) square = CheckedMul(*square, *square);
  }
  return result;
}

Result<Value> ApplyToInts(Operator op, std::int64_t left, std::int64_t right) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && right == 0) return DivisionByZero();
  std::optional<std::int64_t> result;
  switch (op) {
    case Operator::kAdd:
      result = CheckedAdd(left, right);
      break;
    case Operator::kSubtract:
      if (std::int64_t out = 0; !__builtin_sub_overflow(left, right, &out)) result = out;
      break;
    case Operator::kMultiply:
      result = CheckedMul(left, right);
      break;
    case Operator::kDivide:
      return Value(static_cast<double>(left) / static_cast<double>(right));
    case Operator::kFloorDivide:
      // The smallest integer over -1 is the one quotient that overflows.
      if (right != -1) result = FloorDivide(left, right);
      if (right == -1) result = CheckedMul(left, right);
      break;
    case Operator::kModulo:
      result = FloorModulo(left, right);
      break;
    default:  // kPower
      if (right < 0) {
        if (left == 0) return DivisionByZero();
        return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
      }
      result = Power(left, right);
  }
  if (!result) return TooLargeInt();
  return Value(*result);
}

Result<Value> ApplyToReals(Operator op, double left, double right) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && right == 0) return DivisionByZero();
  switch (op) {
    case Operator::kAdd:
      return Value(left + right);
    case Operator::kSubtract:
      return Value(left - right);
    case Operator::kMultiply:
      return Value(left * right);
    case Operator::kDivide:
      return Value(left / right);
    case Operator::kFloorDivide:
      return Value(std::floor((left - FloorModulo(left, right)) / right + 0.5));
    case Operator::kModulo:
      return Value(FloorModulo(left, right));
    default: {  // kPower
      if (left == 0 && right < 0) return DivisionByZero();
      const double power = std::pow(left, right);
      if (std::isnan(power) && !std::isnan(left) && !std::isnan(right)) {
        return Failure("a negative number has no real power of a fraction");
      }
      if (std::isinf(power) && std::isfinite(left) && std::isfinite(right)) {
        return Failure("the result of ** is too large");
      }
      return Value(power);
    }
  }
}

Result<Value> Concatenate(const Value& left, const Value& right) {
  if (left.Is(Kind::kString)) {
    if (left.text().size() + right.text().size() > kMaxStringBytes) return StringTooLong();
    MarkedText out = left.marked();
    out.Append(right.marked());
    return Value(std::move(out));
  }
  std::vector<Value> items = left.sequence().items;
  const std::vector<Value>& more = right.sequence().items;
  items.insert(items.end(), more.begin(), more.end());
  return MakeSequence(left.kind(), std::move(items));
}

Result<Value> Repeat(const Value& value, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  const std::size_t size =
      value.Is(Kind::kString) ? value.text().size() : value.sequence().items.size();
  if (size == 0) times = 0;
  const std::uint64_t most = value.Is(Kind::kString) ? kMaxStringBytes : kMaxValueWeight;
  if (times > 0 && static_cast<std::uint64_t>(times) > most / size) return StringTooLong();
  if (value.Is(Kind::kString)) {
    return Value(value.marked().Repeated(static_cast<std::size_t>(times)));
  }
  std::vector<Value> items;
  const std::vector<Value>& once = value.sequence().items;
  for (; times > 0; --times) items.insert(items.end(), once.begin(), once.end());
  return MakeSequence(value.kind(), std::move(items));
}

bool IsRepeatable(const Value& value) {
  return value.Is(Kind::kString) || value.Is(Kind::kList) || value.Is(Kind::kTuple);
}

Result<Value> ApplyArithmetic(Operator op, const Value& left, const Value& right) {
  if (left.Is(Kind::kLargeInt) || right.Is(Kind::kLargeInt)) return TooLargeInt();
  const auto left_int = left.AsInt();
  const auto right_int = right.AsInt();
  if (left_int && right_int) return ApplyToInts(op, *left_int, *right_int);
  const auto left_real = left.AsReal();
  const auto right_real = right.AsReal();
  if (left_real && right_real) return ApplyToReals(op, *left_real, *right_real);
  if (op == Operator::kAdd && left.kind() == right.kind() && IsRepeatable(left)) {
    return Concatenate(left, right);
  }
  if (op == Operator::kMultiply && IsRepeatable(left) && right_int) return Repeat(left, *right_int);
  if (op == Operator::kMultiply && IsRepeatable(right) && left_int) return Repeat(right, *left_int);
  if (op == Operator::kModulo && left.Is(Kind::kString)) return FormatPercent(left, right);
  return BadOperands(op, left, right);
}

bool EqualItems(const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), Equal);
}

bool EqualDicts(const Dict& left, const Dict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&right](const auto& entry) {
    const Value* other = right.Find(entry.first);
    return other != nullptr && Equal(entry.second, *other);
  });
}

/// Order of two large integers by sign, number of digits, and digits.
std::partial_ordering OrderDigits(std::string_view left, std::string_view right) {
  const bool negative = left.starts_with('-');
  if (negative != right.starts_with('-')) {
    return negative ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  if (negative) std::swap(left, right);
  return left.size() != right.size() ? left.size() <=> right.size() : left.compare(right) <=> 0;
}

/// Order of numbers, exact where an int of 64 bits meets a float: the mantissa holds both.
std::partial_ordering OrderNumbers(const Value& left, const Value& right) {
  if (left.Is(Kind::kLargeInt) && right.Is(Kind::kLargeInt)) {
    return OrderDigits(left.digits(), right.digits());
  }
  const auto left_int = left.AsInt();
  const auto right_int = right.AsInt();
  if (left_int && right_int) return *left_int <=> *right_int;
  const auto wide = [](const Value& value) {
    const auto number = value.AsInt();
    return number ? static_cast<long double>(*number) : static_cast<long double>(*value.AsReal());
  };
  return wide(left) <=> wide(right);
}

Result<std::partial_ordering> OrderItems(const Value& left, const Value& right, Operator op) {
  const std::vector<Value>& a = left.sequence().items;
  const std::vector<Value>& b = right.sequence().items;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!Equal(a[i], b[i])) return Order(a[i], b[i], op);
  }
  return std::partial_ordering(a.size() <=> b.size());
}

Result<Value> Compare(Operator op, const Value& left, const Value& right) {
  KV8_ASSIGN_OR_RETURN(const auto order, Order(left, right, op));
  switch (op) {
    case Operator::kLess:
      return Value(std::is_lt(order));
    case Operator::kLessEqual:
      return Value(std::is_lteq(order));
    case Operator::kGreater:
      return Value(std::is_gt(order));
    default:
      return Value(std::is_gteq(order));
  }
}

}  // namespace

std::string_view Spelling(Operator op) {
  static constexpr std::array<std::string_view, 15> kSpellings = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<std::size_t>(op)];
}

Error StringTooLong() {
  return Error{Code::kResourceExhausted,
               fmt::format("a value would be longer than {} bytes or {} items", kMaxStringBytes,
                           kMaxValueWeight),
               "", ""};
}

bool Equal(const Value& left, const Value& right) {
  if (left.AsReal() && right.AsReal()) return std::is_eq(OrderNumbers(left, right));
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return left.text() == right.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return left.IsSame(right) || EqualItems(left.sequence().items, right.sequence().items);
    case Kind::kDict:
      return left.IsSame(right) || EqualDicts(left.dict(), right.dict());
    default:
      return left.IsSame(right);
  }
}

Result<std::partial_ordering> Order(const Value& left, const Value& right, Operator op) {
  if (left.AsReal() && right.AsReal()) return OrderNumbers(left, right);
  if (left.kind() == right.kind()) {
    // UTF-8 sorts as code points do.
    if (left.Is(Kind::kString))
      return std::partial_ordering(left.text().compare(right.text()) <=> 0);
    if (left.Is(Kind::kList) || left.Is(Kind::kTuple)) return OrderItems(left, right, op);
  }
  return BadOperands(op, left, right);
}

Result<Value> Apply(Operator op, const Value& left, const Value& right, std::uint64_t& work) {
  const auto took = [&work](std::uint64_t weight) { work += weight; };
  switch (op) {
    case Operator::kEqual:
    case Operator::kNotEqual:
      took(std::min(left.extent().weight, right.extent().weight));
      return Value(Equal(left, right) == (op == Operator::kEqual));
    case Operator::kLess:
    case Operator::kLessEqual:
    case Operator::kGreater:
    case Operator::kGreaterEqual:
      took(std::min(left.extent().weight, right.extent().weight));
      return Compare(op, left, right);
    case Operator::kIn:
    case Operator::kNotIn: {
      took(right.extent().weight);
      KV8_ASSIGN_OR_RETURN(const bool found, Contains(right, left));
      return Value(found == (op == Operator::kIn));
    }
    default: {
      auto result = ApplyArithmetic(op, left, right);
      if (result.ok()) took(result->extent().weight);
      return result;
    }
  }
}

Result<Value> Negate(const Value& value) {
  if (value.Is(Kind::kLargeInt)) return TooLargeInt();
  if (const auto number = value.AsInt()) return ApplyToInts(Operator::kSubtract, 0, *number);
  if (value.Is(Kind::kFloat)) return Value(-value.real());
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  return Failure(fmt::format("bad operand type for unary -: '{}'", value.TypeName()));
}

Result<bool> Contains(const Value& container, const Value& item) {
  if (container.Is(Kind::kUndefined)) return false;
  if (container.Is(Kind::kString)) {
    if (item.Is(Kind::kUndefined)) return UndefinedError(item);
    if (!item.Is(Kind::kString)) {
      return Failure(
          fmt::format("'in <string>' requires string as left operand, not {}", item.TypeName()));
    }
    return Find(container.text(), item.text()) != std::string::npos;
  }
  if (container.Is(Kind::kDict)) {
    if (!HashOf(item)) return Failure(fmt::format("unhashable type: '{}'", item.TypeName()));
    return container.dict().Find(item) != nullptr;
  }
  if (container.IsSequence()) {
    const Sequence& sequence = container.sequence();
    const bool once = container.Is(Kind::kIterator);
    for (std::size_t i = once ? sequence.taken : 0; i < sequence.items.size(); ++i) {
      if (once) sequence.taken = i + 1;
      if (sequence.items[i].IsSame(item) || Equal(sequence.items[i], item)) return true;
    }
    return false;
  }
  return Failure(fmt::format("argument of type '{}' is not iterable", container.TypeName()));
}

}  // namespace kv8::jinja
