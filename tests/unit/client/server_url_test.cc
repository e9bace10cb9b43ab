#include "client/server_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(ServerUrlTest, TakesUrlsApart) {
  struct Case {
    const char* url;
    bool tls;
    const char* host;
    const char* port;
    const char* authority;
    const char* base_path;
  };
  for (const Case& c :
       {Case{"http://127.0.0.1:8000", false, "127.0.0.1", "8000", "127.0.0.1:8000", ""},
        Case{"http://a.example/v1", false, "a.example", "80", "a.example", ""},
        Case{"https://a.example/", true, "a.example", "443", "a.example", ""},
        Case{"HTTP://[::1]:81/x/y/v1/", false, "::1", "81", "[::1]:81", "/x/y"}}) {
    const auto url = ParseServerUrl(c.url);
    ASSERT_TRUE(url.ok()) << c.url << url.error().ToString();
    EXPECT_EQ(url->tls, c.tls);
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->authority, c.authority);
    EXPECT_EQ(url->base_path, c.base_path);
  }
  EXPECT_EQ(ParseServerUrl("http://[::1]:81/x/v1")->text, "http://[::1]:81/x");
}

TEST(ServerUrlTest, RefusesOthers) {
  for (const char* url :
       {"", "localhost:8000", "127.0.0.1", "ftp://a/", "http://", "http:///v1", "http://a:port",
        "http://a:80x/", "http://a:65536", "http://a:99999999999", "http://user@a", "http://a?q",
        "http://a#f", "http://a b/", "http://[::1"}) {
    const auto parsed = ParseServerUrl(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.error().where, url);
    EXPECT_THAT(parsed.error().remedy, testing::HasSubstr("http://host:8000"));
  }
}

}  // namespace
}  // namespace kv8
