// A responder that keeps what it is given.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/ordered_json.h"
#include "server/http/responder.h"

namespace kv8 {

class FakeResponder : public Responder {
 public:
  void Send(int status, std::string_view content_type, std::string body,
            HttpHeaders headers) override {
    const std::lock_guard lock(mutex_);
    Head(status, content_type, std::move(headers));
    body_ = std::move(body);
    Complete();
  }
  void BeginStream(int status, std::string_view content_type, HttpHeaders headers) override {
    const std::lock_guard lock(mutex_);
    Head(status, content_type, std::move(headers));
    streamed_ = true;
  }
  bool Write(std::string_view piece) override {
    const std::lock_guard lock(mutex_);
    body_ += piece;
    ++writes_;
    changed_.notify_all();
    return !gone_;
  }
  void End() override {
    const std::lock_guard lock(mutex_);
    Complete();
  }
  void Note(std::string_view name, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    notes_[std::string(name)] = text;
  }
  void OnClose(std::function<void()> callback) override {
    bool now = false;
    {
      const std::lock_guard lock(mutex_);
      now = gone_;
      if (!now) on_close_ = callback;
    }
    if (now) callback();
  }

  /// The client goes away.
  void HangUp() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::exchange(on_close_, nullptr);
    }
    if (callback) callback();
  }

  void WaitUntilComplete() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return complete_; });
  }
  void WaitForWrites(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return writes_ >= count || complete_; });
  }

  bool complete() const { return complete_; }
  bool streamed() const { return streamed_; }
  int status() const { return status_; }
  const std::string& content_type() const { return content_type_; }
  const HttpHeaders& headers() const { return headers_; }
  const std::string& body() const { return body_; }
  OrderedJson json() const { return OrderedJson::parse(body_); }

  /// What the log would say by this name.
  std::string note(const std::string& name) const {
    const auto found = notes_.find(name);
    return found == notes_.end() ? "" : found->second;
  }

  /// The "data:" of every event; "[DONE]" as a string.
  std::vector<OrderedJson> events() const {
    std::vector<OrderedJson> events;
    for (std::size_t at = 0; (at = body_.find("data: ", at)) != std::string::npos;) {
      at += 6;
      const std::string data = body_.substr(at, body_.find("\n\n", at) - at);
      events.push_back(data == "[DONE]" ? OrderedJson(data) : OrderedJson::parse(data));
      at += data.size();
    }
    return events;
  }

 private:
  void Head(int status, std::string_view content_type, HttpHeaders headers) {
    ++answers_;
    status_ = answers_ == 1 ? status : -1;  // answered twice
    content_type_ = content_type;
    headers_ = std::move(headers);
  }
  void Complete() {
    complete_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> on_close_;
  bool gone_ = false;
  bool complete_ = false;
  bool streamed_ = false;
  int answers_ = 0;
  int writes_ = 0;
  int status_ = 0;
  std::string content_type_;
  HttpHeaders headers_;
  std::string body_;
  std::map<std::string, std::string> notes_;
};

}  // namespace kv8
