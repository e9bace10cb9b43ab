#include "jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/indexing.h"
#include "jinja/natives.h"
#include "jinja/objects.h"
#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

/// Attribute or method of a value; nullopt when it has none of that name.
std::optional<Value> AttributeOf(const Value& object, std::string_view name) {
  if (object.Is(Kind::kObject)) return object.object()->Attribute(name);
  if (const Native* method = FindMethod(object, name)) return BoundMethod(*method, object);
  if (IsMutation(object, name)) {
    return Value::Undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe: "
                    "templates cannot change lists and dicts",
                    name, object.TypeName()));
  }
  const bool is_group = object.Is(Kind::kTuple) && !object.sequence().label.empty();
  if (is_group && name == "grouper") return object.sequence().items[0];
  if (is_group && name == "list") return object.sequence().items[1];
  return std::nullopt;
}

Value MissingAttribute(const Value& object, std::string_view name) {
  if (object.Is(Kind::kNone))
    return Value::Undefined(fmt::format("None has no attribute '{}'", name));
  return Value::Undefined(
      fmt::format("'{} object' has no attribute '{}'", object.TypeName(), name));
}

}  // namespace

Runtime::~Runtime() {
  for (const auto& space : namespaces_) space->Clear();
}

std::shared_ptr<Namespace> Runtime::AddNamespace() {
  return namespaces_.emplace_back(std::make_shared<Namespace>());
}

Result<void> Runtime::Charge(std::uint64_t work) {
  work_ += work;
  if (limits_.stop.stop_requested()) {
    return Error{Code::kCancelled, "nobody waits for the text any more", "", ""};
  }
  if (memory_ != nullptr && memory_->bytes() > limits_.memory_bytes) {
    return Error{Code::kResourceExhausted,
                 fmt::format("the template's values take more than {} bytes", limits_.memory_bytes),
                 "", "shorten the conversation"};
  }
  if (work_ <= limits_.work) return {};
  return Error{Code::kResourceExhausted,
               fmt::format("the template takes more than {} steps", limits_.work), "",
               "shorten the conversation, or look for a loop in the template that has no end"};
}

Result<std::vector<Value>> Runtime::Items(const Value& value) {
  std::vector<Value> items;
  if (value.IsSequence()) {
    const Sequence& sequence = value.sequence();
    const bool once = value.Is(Kind::kIterator);
    items.assign(sequence.items.begin() + (once ? sequence.taken : 0), sequence.items.end());
    if (once) sequence.taken = sequence.items.size();
  } else if (value.Is(Kind::kDict)) {
    for (const auto& [key, item] : value.dict().entries()) items.push_back(key);
  } else if (value.Is(Kind::kString)) {
    KV8_RETURN_IF_ERROR(Charge(value.text().size()));
    if (value.characters().length() > static_cast<std::int64_t>(kMaxValueWeight))
      return StringTooLong();
    for (const std::string_view character : Characters(value.text())) {
      items.push_back(Value::PartOf(value, character));
    }
  } else if (!value.Is(Kind::kUndefined)) {
    return Failure(fmt::format("'{}' object is not iterable", value.TypeName()));
  }
  KV8_RETURN_IF_ERROR(Charge(items.size()));
  return items;
}

Result<Value> Runtime::GetAttribute(const Value& object, std::string_view name) {
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  if (auto attribute = AttributeOf(object, name)) return std::move(*attribute);
  if (object.Is(Kind::kDict)) {
    if (const Value* item = object.dict().Find(name)) return *item;
  }
  return MissingAttribute(object, name);
}

Result<Value> Runtime::GetItem(const Value& object, const Value& key) {
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  if (auto item = ItemOf(object, key)) return std::move(*item);
  if (key.Is(Kind::kString)) {
    if (auto attribute = AttributeOf(object, key.text())) return std::move(*attribute);
    return MissingAttribute(object, key.text());
  }
  return Value::Undefined(fmt::format("{} object has no element {}", object.TypeName(), Repr(key)));
}

Result<Value> Runtime::Operate(Operator op, const Value& left, const Value& right) {
  std::uint64_t work = 0;
  auto result = Apply(op, left, right, work);
  KV8_RETURN_IF_ERROR(Charge(work));
  return result;
}

Result<Value> Runtime::Call(const Value& callee, const Arguments& arguments) {
  if (callee.Is(Kind::kObject)) return callee.object()->Call(*this, arguments);
  if (callee.Is(Kind::kUndefined)) return UndefinedError(callee);
  return Failure(fmt::format("'{}' object is not callable", callee.TypeName()));
}

Result<Value> Runtime::ApplyFilter(std::string_view name, const Arguments& arguments) {
  const Native* filter = FindFilter(name);
  if (filter == nullptr) return Failure(fmt::format("No filter named '{}'", name));
  return filter->Call(*this, arguments);
}

Result<bool> Runtime::ApplyTest(std::string_view name, const Arguments& arguments) {
  const Native* test = FindTest(name);
  if (test == nullptr) return Failure(fmt::format("No test named '{}'", name));
  KV8_ASSIGN_OR_RETURN(const Value result, test->Call(*this, arguments));
  return result.Truthy();
}

}  // namespace kv8::jinja
