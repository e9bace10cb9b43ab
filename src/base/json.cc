#include "base/json.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_dismantle.h"
#include "base/lfs_pointer.h"
#include "base/ordered_json.h"

namespace kv8 {
namespace {

/// Builds a document with ordered keys. The library's own handler looks each new key up among the
/// object's others, which takes hours on a hostile object of a million keys.
class OrderedBuilder {
 public:
  explicit OrderedBuilder(OrderedJson& document) : document_(&document) {}
  OrderedBuilder(const OrderedBuilder&) = delete;
  OrderedBuilder& operator=(const OrderedBuilder&) = delete;
  ~OrderedBuilder() {
    for (Level& level : open_) DismantleJson(level.value);
  }

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(OrderedJson::number_integer_t value) { return Add(value); }
  bool number_unsigned(OrderedJson::number_unsigned_t value) { return Add(value); }
  bool number_float(OrderedJson::number_float_t value, const std::string& text) {
    if (text.find_first_of(".eE") != text.npos) return Add(value);
    return Add(OrderedJson::binary({text.begin(), text.end()}));
  }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(OrderedJson::binary_t& /*value*/) { return false; }  // not a thing of JSON text
  bool start_object(std::size_t /*size*/) { return Open(OrderedJson::object()); }
  bool end_object() {
    if (open_.back().repeats) KeepLast(open_.back().value.get_ref<OrderedJson::object_t&>());
    return Close();
  }
  void repeat_key() { open_.back().repeats = true; }
  bool start_array(std::size_t /*size*/) { return Open(OrderedJson::array()); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }

 private:
  struct Level {
    OrderedJson value;
    std::string key;       // of the member that comes next
    bool repeats = false;  // some key
  };

  static void KeepLast(OrderedJson::object_t::Container& members) {
    std::map<std::string_view, std::size_t> places;
    OrderedJson::object_t::Container kept;
    for (auto& [name, value] : members) {
      const auto [place, is_new] = places.try_emplace(name, kept.size());
      if (is_new) {
        kept.emplace_back(name, std::move(value));
      } else {
        kept[place->second].second = std::move(value);
      }
    }
    members = std::move(kept);
  }

  bool Open(OrderedJson value) {
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool Close() {
    OrderedJson value = std::move(open_.back().value);
    open_.pop_back();  // takes no memory, so the value is safe until Add has it
    return Add(std::move(value));
  }
  bool Add(OrderedJson value) {
    const DismantleAtExit guard(value);  // its parent may find no memory to take it
    if (open_.empty()) {
      *document_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      OrderedJson::object_t::Container& members =
          open_.back().value.get_ref<OrderedJson::object_t&>();
      members.emplace_back(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  OrderedJson* document_;
  std::vector<Level> open_;
};

void AppendText(const OrderedJson& value, std::string& out) {
  if (const auto digits = LargeInteger(value)) {
    out += *digits;
  } else if (!value.is_structured()) {
    out += value.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
  } else {
    out += value.is_object() ? '{' : '[';
    const char* separator = "";
    for (auto it = value.begin(); it != value.end(); ++it) {
      out += std::exchange(separator, ",");
      if (value.is_object()) {
        AppendText(it.key(), out);
        out += ':';
      }
      AppendText(*it, out);
    }
    out += value.is_object() ? '}' : ']';
  }
}

/// The library's own handler, without exceptions.
class SortedBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  explicit SortedBuilder(Json& document)
      : json_sax_dom_parser(document, /*allow_exceptions_=*/false) {}
};

enum class RepeatedKeys { kRefuse, kKeepLast };

/// Builds the document and refuses what plain parsing lets through.
template <class Builder, RepeatedKeys kRepeated>
class StrictHandler : public Builder {
 public:
  using Builder::Builder;

  bool start_object(std::size_t size) {
    keys_.emplace_back();
    return Enter() && Builder::start_object(size);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Builder::end_object();
  }
  bool start_array(std::size_t size) { return Enter() && Builder::start_array(size); }
  bool end_array() {
    --depth_;
    return Builder::end_array();
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) {
      if constexpr (kRepeated == RepeatedKeys::kKeepLast) {
        Builder::repeat_key();
      } else {
        return Refuse(fmt::format("duplicate key \"{}\"", name));
      }
    }
    return Builder::key(name);
  }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const Exception& /*error*/) {
    return Refuse(fmt::format("not valid JSON at byte {}", position));
  }

  const std::string& problem() const { return problem_; }

 private:
  bool Enter() {
    if (++depth_ > kMaxJsonDepth)
      return Refuse(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    return true;
  }
  bool Refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  std::vector<std::set<std::string>> keys_;
  int depth_ = 0;
  std::string problem_;
};

template <class Document, class Builder, RepeatedKeys kRepeated = RepeatedKeys::kRefuse>
Result<Document> ParseStrictly(std::string_view text, std::string_view where) {
  const auto bad = [where](std::string what) {
    return Error{Code::kCorrupt, std::move(what), std::string(where),
                 "restore the file from its source"};
  };
  // The parser would take a NUL byte for the end of the text and not look at what follows.
  if (const auto nul = text.find('\0'); nul != text.npos) {
    return bad(fmt::format("not valid JSON at byte {}", nul + 1));
  }
  Document root;
  const DismantleAtExit guard(root);
  StrictHandler<Builder, kRepeated> handler(root);
  if (!Document::sax_parse(text.begin(), text.end(), &handler)) {
    return IsLfsPointer(text) ? LfsPointerError(where) : bad(handler.problem());
  }
  return root;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view where) {
  return ParseStrictly<Json, SortedBuilder>(text, where);
}

Result<OrderedJson> ParseOrderedJson(std::string_view text, std::string_view where) {
  return ParseStrictly<OrderedJson, OrderedBuilder>(text, where);
}

Result<OrderedJson> ParseWithLastOfKeys(std::string_view text, std::string_view where) {
  return ParseStrictly<OrderedJson, OrderedBuilder, RepeatedKeys::kKeepLast>(text, where);
}

std::optional<std::string_view> LargeInteger(const OrderedJson& value) {
  if (!value.is_binary()) return std::nullopt;
  const OrderedJson::binary_t& digits = value.get_binary();
  return std::string_view(reinterpret_cast<const char*>(digits.data()), digits.size());
}

std::string OrderedText(const OrderedJson& value) {
  std::string out;
  AppendText(value, out);
  return out;
}

Result<Json> ReadJsonFile(const std::filesystem::path& path, std::uint64_t max_bytes) {
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_bytes));
  return ParseJson(text, path.string());
}

std::string DumpJson(const Json& json) {
  // Paths may hold any bytes; a replacement character in a message file beats an exception.
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

std::string JsonText(const Json& value) {
  constexpr std::size_t kMaxBytes = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMaxBytes) text = text.substr(0, kMaxBytes) + "...";
  return text;
}

}  // namespace kv8
