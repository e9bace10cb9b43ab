#include "jinja/natives.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

class Function : public Object {
 public:
  Function(const Native& native, std::optional<Value> self)
      : Object(self ? Extent::Around(self->extent()) : Extent()),
        native_(native),
        self_(std::move(self)) {}

  std::string_view type_name() const override { return self_ ? "method" : "function"; }
  bool callable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    if (!self_) return native_.Call(runtime, arguments);
    Arguments all = arguments;
    all.positional.insert(all.positional.begin(), *self_);
    return native_.Call(runtime, all);
  }

 private:
  const Native& native_;  // in a table that lives as long as the program
  std::optional<Value> self_;
};

/// Work of having made a value: its text or its items, not what is inside of them.
std::uint64_t WorkOf(const Value& result) {
  if (result.Is(Kind::kString)) return result.text().size() / kBytesPerWeight;
  if (result.IsSequence()) return result.sequence().items.size();
  return 0;
}

/// Work of reading the texts among the arguments. What goes through items counts them itself.
std::uint64_t WorkOf(const Arguments& arguments) {
  std::uint64_t work = 0;
  const auto add = [&work](const Value& value) {
    if (value.Is(Kind::kString)) work += value.text().size() / kBytesPerWeight;
  };
  for (const Value& value : arguments.positional) add(value);
  for (const auto& [name, value] : arguments.keyword) add(value);
  return work;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), IsAsciiDigit);
}

}  // namespace

Result<Value> Native::Call(Runtime& runtime, const Arguments& arguments) const {
  KV8_RETURN_IF_ERROR(runtime.Charge(WorkOf(arguments)));
  auto result = [&]() -> Result<Value> {
    if (free_ != nullptr) return free_(runtime, arguments);
    KV8_ASSIGN_OR_RETURN(const Bound bound, Bind(name_, parameters_, arguments));
    return placed_(runtime, bound);
  }();
  if (result.ok()) KV8_RETURN_IF_ERROR(runtime.Charge(WorkOf(*result)));
  return result;
}

NativeTable::NativeTable(const std::vector<std::vector<Native>>& parts) {
  for (const auto& part : parts) {
    for (const Native& native : part) natives_.emplace(native.name(), native);
  }
}

const Native* NativeTable::Find(std::string_view name) const {
  const auto it = natives_.find(name);
  return it == natives_.end() ? nullptr : &it->second;
}

Value NativeFunction(const Native& native) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(native, std::nullopt)));
}

Value BoundMethod(const Native& native, const Value& self) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(native, self)));
}

AttributeGetter::AttributeGetter(Runtime& runtime, const Value* path, const Value* fallback)
    : runtime_(runtime), fallback_(fallback) {
  if (path == nullptr || path->Is(Kind::kNone)) return;
  if (!path->Is(Kind::kString)) {
    steps_.push_back(*path);
    return;
  }
  std::string_view rest = path->text();
  while (true) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view step = rest.substr(0, end);
    steps_.push_back(IsNumber(step) ? Value(std::int64_t{std::stoi(std::string(step))})
                                    : Value(step));
    if (end == rest.size()) return;
    rest.remove_prefix(end + 1);
  }
}

Result<Value> AttributeGetter::operator()(const Value& item) const {
  Value value = item;
  KV8_RETURN_IF_ERROR(runtime_.Charge(1 + steps_.size()));
  for (const Value& step : steps_) {
    KV8_ASSIGN_OR_RETURN(value, runtime_.GetItem(value, step));
    if (fallback_ != nullptr && value.Is(Kind::kUndefined)) value = *fallback_;
  }
  return value;
}

}  // namespace kv8::jinja
