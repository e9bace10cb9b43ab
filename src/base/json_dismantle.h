// Takes large JSON documents apart where memory has run out.
#pragma once

namespace kv8 {

/// Empties a document without taking memory. nlohmann's destructor takes as much as the largest
/// array has elements, and ends the program where there is none. Depth is bounded by kMaxJsonDepth.
template <class Document>
void DismantleJson(Document& document) {
  if (document.is_array()) {
    auto& elements = document.template get_ref<typename Document::array_t&>();
    for (Document& element : elements) DismantleJson(element);
    elements.clear();
  } else if (document.is_object()) {
    auto& members = document.template get_ref<typename Document::object_t&>();
    for (auto& [key, value] : members) DismantleJson(value);
    members.clear();
  }
}

/// Does that at the end of its scope, be it reached by an exception or not. Declared behind the
/// document, which may have been moved from by then.
template <class Document>
class DismantleAtExit {
 public:
  explicit DismantleAtExit(Document& document) : document_(document) {}
  DismantleAtExit(const DismantleAtExit&) = delete;
  DismantleAtExit& operator=(const DismantleAtExit&) = delete;
  ~DismantleAtExit() { DismantleJson(document_); }

 private:
  Document& document_;
};

}  // namespace kv8
