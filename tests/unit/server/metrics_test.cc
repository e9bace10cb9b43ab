#include "server/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace kv8 {
namespace {

using testing::HasSubstr;

EngineStatistics SomeStatistics() {
  EngineStatistics s;
  s.running = 3;
  s.stopped = 5;
  s.prompt_tokens = 100;
  s.cached_tokens = 20;
  s.prefix_lookups = 2;
  s.prefix_lookup_tokens = 110;
  s.speculation = {
      .steps = 4, .drafted = 7, .accepted = 3, .drafted_at = {4, 3}, .accepted_at = {2, 1}};
  s.first_token_seconds = {.bounds = {0.1, 1}, .counts = {2, 0, 1}, .sum = 5.5, .count = 3};
  return s;
}

KvCacheInfo SomeCache() {
  KvCacheInfo kv;
  kv.pages = 10;
  kv.free_pages = 6;
  kv.cached_pages = 3;
  kv.bytes = 1000;
  kv.scale_pack_id = "pack-1";
  kv.layers = {{.layer = 3, .k_scale = 0.5f, .saturated_k = 1, .flushed_k = 5},
               {.layer = 12, .draft = true, .saturated_v = 2}};
  return kv;
}

std::string Text() {
  HttpStatistics http;
  http.connections_open = 9;
  return MetricsText({.statistics = SomeStatistics(),
                      .kv_cache = SomeCache(),
                      .memory = {.states = 77},
                      .http = http,
                      .model_name = "tiny \"q\""});
}

TEST(Metrics, UseTheNamesAndLabelsOfVllm) {
  const std::string text = Text();
  const std::string labels = R"({model_name="tiny \"q\"",engine="0")";
  for (const std::string& line : {
           "vllm:num_requests_running" + labels + "} 3\n",
           "vllm:prompt_tokens_total" + labels + "} 120\n",
           "vllm:prefix_cache_queries_total" + labels + "} 110\n",
           "vllm:prefix_cache_hits_total" + labels + "} 20\n",
           "vllm:request_success_total" + labels + ",finished_reason=\"stop\"} 5\n",
           "vllm:spec_decode_num_drafts_total" + labels + "} 4\n",
           "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"1\"} 1\n",
           "vllm:kv_cache_usage_perc" + labels + "} 0.4",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:num_requests_running gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:prompt_tokens_total counter\n"));
}

TEST(Metrics, HistogramsAreCumulative) {
  const std::string text = Text();
  for (const char* line : {",le=\"0.1\"} 2\n", ",le=\"1\"} 2\n", ",le=\"+Inf\"} 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

/// What vLLM's own dashboards and the usual ones draw.
TEST(Metrics, EveryHistogramOfVllmsDashboardsComesFromItsOwnStatistic) {
  EngineStatistics s;
  std::map<std::string, Histogram*> histograms = {
      {"vllm:time_to_first_token_seconds", &s.first_token_seconds},
      {"vllm:inter_token_latency_seconds", &s.inter_token_seconds},
      {"vllm:request_time_per_output_token_seconds", &s.token_seconds},
      {"vllm:e2e_request_latency_seconds", &s.request_seconds},
      {"vllm:request_queue_time_seconds", &s.queue_seconds},
      {"vllm:request_prefill_time_seconds", &s.prefill_seconds},
      {"vllm:request_decode_time_seconds", &s.decode_seconds},
      {"vllm:request_prompt_tokens", &s.request_prompt_tokens},
      {"vllm:request_generation_tokens", &s.request_generated_tokens},
      {"vllm:request_max_num_generation_tokens", &s.request_longest_choice},
  };
  double sum = 0;
  for (auto& [name, histogram] : histograms) {
    *histogram = {.bounds = {1}, .counts = {0, 1}, .sum = ++sum, .count = 1};
  }
  const std::string text =
      MetricsText({.statistics = s, .kv_cache = {}, .memory = {}, .http = {}, .model_name = "m"});
  for (const auto& [name, histogram] : histograms) {
    EXPECT_THAT(text, HasSubstr("# TYPE " + name + " histogram\n"));
    EXPECT_THAT(text, HasSubstr(fmt::format("{}_sum{{model_name=\"m\",engine=\"0\"}} {}\n", name,
                                            histogram->sum)));
  }
}

TEST(Metrics, ShowTheCacheByOwnerAndTheClippedValuesByLayer) {
  const std::string text = Text();
  for (const char* line :
       {"owner=\"free\"} 6\n", "owner=\"prefix_cache\"} 3\n", "owner=\"requests\"} 1\n",
        "owner=\"requests\"} 100\n", "owner=\"states\"} 77\n",
        "layer=\"3\",draft=\"false\",side=\"k\"} 0.5\n",
        "layer=\"3\",draft=\"false\",side=\"k\"} 1\n",
        "layer=\"12\",draft=\"true\",side=\"v\"} 2\n",
        "id=\"pack-1\",weights=\"none\",accepted_lineage=\"false\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace kv8
