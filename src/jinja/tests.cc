// Tests: `value is name`.
#include "jinja/natives.h"
#include "jinja/operators.h"
#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

template <Kind kKind>
Result<Value> IsKind(Runtime&, const Bound& args) {
  return Value(args[0]->Is(kKind));
}

Result<Value> IsDefined(Runtime&, const Bound& args) {
  return Value(!args[0]->Is(Kind::kUndefined));
}
Result<Value> IsTrue(Runtime&, const Bound& args) {
  return Value(args[0]->Is(Kind::kBool) && args[0]->boolean());
}
Result<Value> IsFalse(Runtime&, const Bound& args) {
  return Value(args[0]->Is(Kind::kBool) && !args[0]->boolean());
}
Result<Value> IsNumberTest(Runtime&, const Bound& args) {
  return Value(args[0]->AsReal().has_value());
}

Result<Value> IsIntegerTest(Runtime&, const Bound& args) {
  return Value(args[0]->Is(Kind::kInt) || args[0]->Is(Kind::kLargeInt));
}

/// Whatever has a length and items; so do undefined values.
Result<Value> IsSequenceTest(Runtime&, const Bound& args) {
  return Value(args[0]->Length().has_value() && !args[0]->Is(Kind::kView));
}
Result<Value> IsIterable(Runtime&, const Bound& args) {
  const Value& value = *args[0];
  return Value(value.IsSequence() || value.Is(Kind::kString) || value.Is(Kind::kDict) ||
               value.Is(Kind::kUndefined));
}
Result<Value> IsCallable(Runtime&, const Bound& args) {
  // Jinja's undefined values have a call, which fails.
  return Value(args[0]->Is(Kind::kUndefined) ||
               (args[0]->Is(Kind::kObject) && args[0]->object()->callable()));
}

Result<Value> ModuloIs(Runtime& runtime, const Value& value, const Value& divisor,
                       std::int64_t wanted) {
  KV8_ASSIGN_OR_RETURN(const Value rest, runtime.Operate(Operator::kModulo, value, divisor));
  return Value(Equal(rest, Value(wanted)));
}
Result<Value> IsOdd(Runtime& runtime, const Bound& args) {
  return ModuloIs(runtime, *args[0], Value(std::int64_t{2}), 1);
}
Result<Value> IsEven(Runtime& runtime, const Bound& args) {
  return ModuloIs(runtime, *args[0], Value(std::int64_t{2}), 0);
}
Result<Value> IsDivisibleBy(Runtime& runtime, const Bound& args) {
  return ModuloIs(runtime, *args[0], *args[1], 0);
}

Result<Value> IsLowerTest(Runtime&, const Bound& args) {
  return Value(IsLower(Str(*args[0])));
}
Result<Value> IsUpperTest(Runtime&, const Bound& args) {
  return Value(IsUpper(Str(*args[0])));
}
Result<Value> IsSameAs(Runtime&, const Bound& args) {
  return Value(args[0]->IsSame(*args[1]));
}
Result<Value> IsEscaped(Runtime&, const Bound&) {
  return Value(false);
}
Result<Value> IsFilter(Runtime&, const Bound& args) {
  return Value(args[0]->Is(Kind::kString) && FindFilter(args[0]->text()) != nullptr);
}
Result<Value> IsTest(Runtime&, const Bound& args) {
  return Value(args[0]->Is(Kind::kString) && FindTest(args[0]->text()) != nullptr);
}

template <Operator kOperator>
Result<Value> Operation(Runtime& runtime, const Bound& args) {
  return runtime.Operate(kOperator, *args[0], *args[1]);
}

std::vector<Native> KindTests() {
  return {
      {"boolean", "value", IsKind<Kind::kBool>},
      {"callable", "value", IsCallable},
      {"defined", "value", IsDefined},
      {"escaped", "value", IsEscaped},
      {"false", "value", IsFalse},
      {"filter", "value", IsFilter},
      {"float", "value", IsKind<Kind::kFloat>},
      {"integer", "value", IsIntegerTest},
      {"iterable", "value", IsIterable},
      {"mapping", "value", IsKind<Kind::kDict>},
      {"none", "value", IsKind<Kind::kNone>},
      {"number", "value", IsNumberTest},
      {"sequence", "value", IsSequenceTest},
      {"string", "value", IsKind<Kind::kString>},
      {"test", "value", IsTest},
      {"true", "value", IsTrue},
      {"undefined", "value", IsKind<Kind::kUndefined>},
  };
}

std::vector<Native> ValueTests() {
  return {
      {"divisibleby", "value num", IsDivisibleBy},
      {"even", "value", IsEven},
      {"lower", "value", IsLowerTest},
      {"odd", "value", IsOdd},
      {"sameas", "value other", IsSameAs},
      {"upper", "value", IsUpperTest},
  };
}

std::vector<Native> ComparisonTests() {
  std::vector<Native> tests;
  const auto add = [&tests](std::initializer_list<std::string_view> names, Native::Placed call) {
    for (const std::string_view name : names) tests.emplace_back(name, "value other", call);
  };
  add({"==", "eq", "equalto"}, Operation<Operator::kEqual>);
  add({"!=", "ne"}, Operation<Operator::kNotEqual>);
  add({"<", "lt", "lessthan"}, Operation<Operator::kLess>);
  add({"<=", "le"}, Operation<Operator::kLessEqual>);
  add({">", "gt", "greaterthan"}, Operation<Operator::kGreater>);
  add({">=", "ge"}, Operation<Operator::kGreaterEqual>);
  add({"in"}, Operation<Operator::kIn>);
  return tests;
}

}  // namespace

const Native* FindTest(std::string_view name) {
  static const NativeTable kTable({KindTests(), ValueTests(), ComparisonTests()});
  return kTable.Find(name);
}

}  // namespace kv8::jinja
