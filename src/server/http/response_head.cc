#include "server/http/response_head.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>

namespace kv8 {
namespace {

constexpr std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

/// RFC 9110's date, in English whatever the locale.
void AppendDate(std::string& out) {
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  fmt::format_to(std::back_inserter(out), "Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n",
                 kDays.substr(static_cast<std::size_t>(utc.tm_wday) * 3, 3), utc.tm_mday,
                 kMonths.substr(static_cast<std::size_t>(utc.tm_mon) * 3, 3), utc.tm_year + 1900,
                 utc.tm_hour, utc.tm_min, utc.tm_sec);
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out.append(name).append(": ");
  for (const char c : value) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  out += "\r\n";
}

}  // namespace

std::string ResponseHead(const ResponseFrame& frame, int status, std::string_view content_type,
                         std::optional<std::size_t> length, const HttpHeaders& headers) {
  std::string out;
  out.reserve(512);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nServer: kv8\r\n", status,
                 Reason(status));
  AppendDate(out);
  AppendHeader(out, "X-Request-Id", frame.request_id);
  AppendHeader(out, "Content-Type", content_type);
  for (const auto& [name, value] : headers) AppendHeader(out, name, value);
  AppendHeader(out, "Access-Control-Allow-Origin", frame.cors_origin);
  if (length) {
    // 204 has no body, and must not say how long it is.
    if (status != 204) AppendHeader(out, "Content-Length", std::to_string(*length));
  } else {
    AppendHeader(out, "Cache-Control", "no-cache");
    if (!frame.http_1_0) AppendHeader(out, "Transfer-Encoding", "chunked");
  }
  if (!frame.keep_alive) {
    AppendHeader(out, "Connection", "close");
  } else if (frame.http_1_0) {
    AppendHeader(out, "Connection", "keep-alive");
  }
  return out += "\r\n";
}

void AppendChunk(std::string& out, std::string_view piece) {
  out.reserve(out.size() + piece.size() + 24);  // a chunk is appended whole or not at all
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
  out.append(piece).append("\r\n");
}

}  // namespace kv8
