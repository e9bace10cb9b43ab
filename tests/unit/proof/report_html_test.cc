#include "proof/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proof/svg.h"

namespace kv8 {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kEvil = "<script>alert('1')</script>\"&";

/// A report whose every text is hostile.
Json Hostile() {
  const Json arm = {{"kv_cache_dtype", kEvil}, {"server", Json()}, {"bytes_per_token", 2048}};
  const Json served = {{"server", kEvil}, {"model", kEvil}, {"bytes_per_token", Json()}};
  return {{"passed", false},
          {"documents", 9},
          {"corpus_sha256", kEvil},
          {"arms", {{"a", arm}, {"b", served}}},
          {"not_measured", {{{"arm", "b"}, {"measurement", kEvil}, {"reason", kEvil}}}},
          {"failures",
           {{{"arm", "b"},
             {"measurement", kEvil},
             {"where", kEvil},
             {"what", kEvil},
             {"remedy", kEvil}}}},
          {"verdicts",
           {{{"what", kEvil},
             {"outcome", "B is worse"},
             {"a", 1.0},
             {"b", 2.0},
             {"pairs", 7},
             {"difference", 1.0},
             {"low", 0.5},
             {"high", 1.5},
             {"smallest_effect", nullptr}}}},
          {"gates",
           {{{"name", kEvil},
             {"figure", kEvil},
             {"at_most", 1.0},
             {"at_least", nullptr},
             {"value", nullptr},
             {"passed", false}}}},
          {"diagnostics",
           {{"by_category", {{{"category", kEvil}, {"kl", 0.5}}}},
            {"losses",
             {{"b", {{{"layer", 3}, {"draft", false}, {"clipped_k", 1}, {"clipped_v", 0}}}}}}}}};
}

TEST(ReportHtml, Verify12_NoTextOfAReportBecomesMarkup) {
  const std::string page = ReportHtml(Hostile());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("alert('")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(ReportHtml, Verify12_AsksForNothingOutside) {
  const std::string page = ReportHtml(Hostile());
  for (const char* text : {"src=", "href=", "url(", "@import", "<link", "<iframe"}) {
    EXPECT_THAT(page, Not(HasSubstr(text)));
  }
  // The one address is the name of SVG's vocabulary.
  std::string rest = page;
  const std::string name = "http://www.w3.org/2000/svg";
  for (auto at = rest.find(name); at != rest.npos; at = rest.find(name))
    rest.erase(at, name.size());
  EXPECT_THAT(rest, Not(HasSubstr("//")));
}

TEST(ReportHtml, Verify12_VerdictsComeFirst) {
  const std::string page = ReportHtml(Hostile());
  EXPECT_LT(page.find(">Verdicts<"), page.find(">Gates<"));
  EXPECT_LT(page.find(">Gates<"), page.find("KL divergence"));
  EXPECT_LT(page.find("KL divergence"), page.find(">Capacity<"));
  EXPECT_THAT(page, HasSubstr("not measured"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("width=device-width"));
}

TEST(BarPlot, TheLongestBarFillsItsRoomAndZeroesStayFinite) {
  EXPECT_THAT(BarPlot("t", {{"x", {2}}, {"y", {1}}}), HasSubstr("width=\"202.0\""));
  EXPECT_THAT(BarPlot("t", {{"x", {2}}, {"y", {1}}}), HasSubstr("width=\"101.0\""));
  EXPECT_THAT(BarPlot("t", {{"x", {0}}}), HasSubstr("width=\"0.0\""));
  EXPECT_THAT(IntervalPlot(0, 0, 0), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace kv8
