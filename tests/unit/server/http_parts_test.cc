// The small parts of the HTTP side: keys, routes, error bodies, response heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "server/http/api_keys.h"
#include "server/http/error_body.h"
#include "server/http/response_head.h"
#include "server/http/router.h"

namespace kv8 {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ApiKeys, AcceptsTheKeysAndNothingElse) {
  const auto keys = ApiKeys::Create({"first", "second", "third", "second"});
  ASSERT_TRUE(keys.ok());
  for (const char* good : {"Bearer first", "bearer first", "BEARER first"}) {
    EXPECT_EQ(keys->Find(good), 0u) << good;
  }
  EXPECT_EQ(keys->Find("Bearer second"), 1u);
  EXPECT_EQ(keys->Find("Bearer third"), 2u);
  for (const char* bad : {"", "first", "Bearer", "Bearer ", "Bearer firs", "Bearer firstx",
                          "Bearer  first", "Basic first", "Bearer first,second", "Bearer First"}) {
    EXPECT_EQ(keys->Find(bad), std::nullopt) << bad;
  }
}

TEST(ApiKeys, WithoutKeysEveryoneMayAsk) {
  EXPECT_EQ(ApiKeys::Create({})->Find(""), 0u);
}

TEST(ApiKeys, RefusesKeysThatNoHeaderCanHold) {
  for (const char* bad : {"", "a b", "a\nb", "\xC3\xA4"}) {
    const auto keys = ApiKeys::Create({"good", bad});
    ASSERT_FALSE(keys.ok());
    EXPECT_EQ(keys.error().code, Code::kInvalidArgument);
    EXPECT_THAT(keys.error().what, HasSubstr("key 2 of 2"));
  }
}

Handler Nothing() {
  return [](const HttpRequest&, const std::shared_ptr<Responder>&) {};
}

TEST(Router, FindsTheClosestRoute) {
  Router router;
  router.Add("GET", "/a", Nothing(), RouteAccess::kOpen);
  router.Add("POST", "/a", Nothing());
  router.Add("GET", "/a/*", Nothing());
  router.Add("DELETE", "/a/b/*", Nothing());

  EXPECT_NE(router.Find("GET", "/a").handler, nullptr);
  EXPECT_EQ(router.Find("GET", "/a").access, RouteAccess::kOpen);
  EXPECT_EQ(router.Find("POST", "/a").access, RouteAccess::kKey);
  EXPECT_EQ(router.Find("HEAD", "/a").handler, router.Find("GET", "/a").handler);
  EXPECT_EQ(router.Find("PUT", "/a").handler, nullptr);
  EXPECT_EQ(router.Find("PUT", "/a").allowed, "GET, HEAD, POST, OPTIONS");
  EXPECT_NE(router.Find("GET", "/a/x/y").handler, nullptr);
  EXPECT_EQ(router.Find("GET", "/a/b/c").allowed, "DELETE, OPTIONS");
  for (const char* unknown : {"/", "", "/b", "/aa", "/A"}) {
    EXPECT_EQ(router.Find("GET", unknown).handler, nullptr) << unknown;
    EXPECT_EQ(router.Find("GET", unknown).allowed, "") << unknown;
  }
}

TEST(ErrorBody, HasTheShapeThatClientsRead) {
  const auto body = ParseJson(
      ErrorBody({.status = 400, .message = "a \"b\" \xFF", .param = "n", .code = "bad"}), "");
  ASSERT_TRUE(body.ok());
  EXPECT_EQ((*body)["error"]["message"], "a \"b\" \xEF\xBF\xBD");
  EXPECT_EQ((*body)["error"]["type"], "invalid_request_error");
  EXPECT_EQ((*body)["error"]["param"], "n");
  EXPECT_EQ((*body)["error"]["code"], "bad");
  const auto bare = ParseJson(ErrorBody({.status = 503, .message = "m"}), "");
  EXPECT_EQ((*bare)["error"]["type"], "server_error");
  EXPECT_TRUE((*bare)["error"]["param"].is_null());
  EXPECT_TRUE((*bare)["error"]["code"].is_null());
}

TEST(ResponseHead, SaysHowTheBodyEnds) {
  ResponseFrame frame{.request_id = "r1"};
  EXPECT_THAT(ResponseHead(frame, 200, "text/plain", 5, {}),
              AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 5\r\n"),
                    HasSubstr("X-Request-Id: r1\r\n"), Not(HasSubstr("Connection"))));
  EXPECT_THAT(ResponseHead(frame, 200, "text/plain", std::nullopt, {}),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), Not(HasSubstr("Content-Length"))));
  EXPECT_THAT(ResponseHead(frame, 204, "", 0, {}), Not(HasSubstr("Content-Length")));
  frame.http_1_0 = true;
  EXPECT_THAT(ResponseHead(frame, 200, "text/plain", std::nullopt, {}),
              Not(HasSubstr("Transfer-Encoding")));
}

TEST(ResponseHead, KeepsEveryHeaderOnItsLine) {
  EXPECT_THAT(ResponseHead({}, 200, "", 0, {{"X", "a\r\nSet-Cookie: b"}}),
              HasSubstr("X: a  Set-Cookie: b\r\n"));
}

}  // namespace
}  // namespace kv8
