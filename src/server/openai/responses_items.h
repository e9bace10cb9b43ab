// The output of /v1/responses: items of reasoning, text and calls, one after the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "server/openai/answer_parser.h"

namespace kv8::openai {

struct ResponseItem {
  enum class Kind { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::string id;
  std::string text;  // or the arguments of a call
  std::string call_id;
  std::string name;
  bool complete = false;
};

/// The whole item as it is now; `empty`: as it was when it began.
void WriteItem(JsonWriter& json, const ResponseItem& item, bool empty = false);

/// The only part of a message or of reasoning.
void WritePart(JsonWriter& json, const ResponseItem& item, std::string_view text);

/// Hears what becomes of the items.
class ItemListener {
 public:
  virtual ~ItemListener() = default;
  virtual void OnBegin(std::size_t index, const ResponseItem& item) = 0;
  virtual void OnText(std::size_t index, const ResponseItem& item, std::string_view text) = 0;
  virtual void OnEnd(std::size_t index, const ResponseItem& item) = 0;
};

/// Sorts an answer's news into items. An item ends where another begins.
class ResponseItems {
 public:
  /// `listener` may be null.
  explicit ResponseItems(ItemListener* listener) : listener_(listener) {}

  void Add(const AnswerDelta& delta);
  /// Ends the last item; `complete`: the answer came to its end.
  void Finish(bool complete);

  const std::vector<ResponseItem>& items() const { return items_; }

 private:
  void AddText(ResponseItem::Kind kind, std::string_view text);
  void AddCall(const CallDelta& call);
  void Begin(ResponseItem item);
  void Append(std::string_view text);
  void End(bool complete);

  ItemListener* listener_;
  std::vector<ResponseItem> items_;
  bool open_ = false;  // the last item goes on
};

}  // namespace kv8::openai
