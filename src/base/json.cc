#include "base/json.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "base/file.h"

namespace kv8 {
namespace {

/// Builds the document through the DOM's own handler and refuses what plain parsing lets through.
class StrictHandler : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  explicit StrictHandler(Json& document) : Base(document, /*allow_exceptions_=*/false) {}

  bool start_object(std::size_t size) {
    keys_.emplace_back();
    return Enter() && Base::start_object(size);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t size) { return Enter() && Base::start_array(size); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) return Refuse(fmt::format("duplicate key \"{}\"", name));
    return Base::key(name);
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

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view where) {
  const auto bad = [where](std::string what) {
    return Error{Code::kCorrupt, std::move(what), std::string(where),
                 "restore the file from its source"};
  };
  // The parser would take a NUL byte for the end of the text and not look at what follows.
  if (const auto nul = text.find('\0'); nul != text.npos) {
    return bad(fmt::format("not valid JSON at byte {}", nul + 1));
  }
  Json root;
  StrictHandler handler(root);
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) return bad(handler.problem());
  return root;
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
