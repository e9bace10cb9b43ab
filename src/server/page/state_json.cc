#include "server/page/state_json.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/json_writer.h"

namespace kv8 {
namespace {

void WriteCount(JsonWriter& json, std::string_view name, std::uint64_t count) {
  json.Key(name).Integer(static_cast<std::int64_t>(count));
}

void WriteRequests(JsonWriter& json, const EngineStatistics& s) {
  json.Key("requests").BeginObject();
  WriteCount(json, "running", s.running);
  WriteCount(json, "waiting", s.waiting);
  WriteCount(json, "submitted", s.submitted);
  WriteCount(json, "stopped", s.stopped);
  WriteCount(json, "length", s.length);
  WriteCount(json, "cancelled", s.cancelled);
  WriteCount(json, "failed", s.failed);
  WriteCount(json, "preemptions", s.preemptions);
  json.EndObject();
  json.Key("tokens").BeginObject();
  WriteCount(json, "prompt", s.prompt_tokens);
  WriteCount(json, "cached", s.cached_tokens);
  WriteCount(json, "generated", s.generated_tokens);
  json.EndObject();
}

void WriteLatency(JsonWriter& json, std::string_view name, const Histogram& histogram) {
  json.Key(name).BeginObject();
  WriteCount(json, "count", histogram.count);
  json.Key("seconds").Number(histogram.sum).EndObject();
}

void WriteWork(JsonWriter& json, const EngineStatistics& s) {
  json.Key("steps").BeginObject();
  WriteCount(json, "count", s.steps);
  WriteCount(json, "rows", s.rows);
  json.Key("schedule_seconds").Number(s.schedule_seconds);
  json.Key("run_seconds").Number(s.run_seconds);
  json.Key("draft_seconds").Number(s.draft_seconds);
  json.Key("commit_seconds").Number(s.commit_seconds).EndObject();
  json.Key("latency").BeginObject();
  WriteLatency(json, "queue", s.queue_seconds);
  WriteLatency(json, "first_token", s.first_token_seconds);
  WriteLatency(json, "token", s.token_seconds);
  json.EndObject();
  json.Key("prefix").BeginObject();
  WriteCount(json, "lookups", s.prefix_lookups);
  WriteCount(json, "hits", s.prefix_hits);
  WriteCount(json, "hit_pages", s.prefix_hit_pages);
  WriteCount(json, "snapshots", s.prefix_snapshots);
  json.EndObject();
}

void WriteKvHost(JsonWriter& json, const KvTierStatistics& s) {
  if (s.budget == 0) {
    json.Key("kv_host").Null();
    return;
  }
  json.Key("kv_host").BeginObject();
  WriteCount(json, "budget", s.budget);
  WriteCount(json, "bytes", s.bytes);
  WriteCount(json, "units", s.units);
  WriteCount(json, "contexts", s.contexts);
  WriteCount(json, "hits", s.hits);
  WriteCount(json, "hit_pages", s.hit_pages);
  WriteCount(json, "restored_bytes", s.restored_bytes);
  WriteCount(json, "written_bytes", s.written_bytes);
  WriteCount(json, "states_given_up", s.states_given_up);
  WriteCount(json, "units_given_up", s.units_given_up);
  WriteCount(json, "lost", s.lost);
  json.EndObject();
}

void WriteSpeculation(JsonWriter& json, const SpeculationStats& s) {
  const auto write_counts = [&](std::string_view name, const std::vector<std::int64_t>& counts) {
    json.Key(name).BeginArray();
    for (const std::int64_t count : counts) json.Integer(count);
    json.EndArray();
  };
  json.Key("speculation").BeginObject();
  json.Key("steps").Integer(s.steps);
  json.Key("drafted").Integer(s.drafted);
  json.Key("accepted").Integer(s.accepted);
  write_counts("drafted_at", s.drafted_at);
  write_counts("accepted_at", s.accepted_at);
  json.EndObject();
}

void WriteLayer(JsonWriter& json, const KvCacheInfo::Layer& layer, bool scaled) {
  json.BeginObject().Key("layer").Integer(layer.layer).Key("draft").Bool(layer.draft);
  if (scaled) {
    json.Key("k_scale").Number(layer.k_scale).Key("v_scale").Number(layer.v_scale);
  } else {
    json.Key("k_scale").Null().Key("v_scale").Null();
  }
  WriteCount(json, "saturated_k", layer.saturated_k);
  WriteCount(json, "saturated_v", layer.saturated_v);
  WriteCount(json, "flushed_k", layer.flushed_k);
  WriteCount(json, "flushed_v", layer.flushed_v);
  json.EndObject();
}

void WriteCache(JsonWriter& json, const KvCacheInfo& kv) {
  const bool scaled = kv.dtype == KvDType::kE4M3;
  json.Key("kv_cache").BeginObject().Key("dtype").String(Name(kv.dtype)).Key("scale_pack");
  if (scaled) {
    json.String(kv.scale_pack_id);
  } else {
    json.Null();
  }
  json.Key("weights").String(Name(kv.weights_binding));
  json.Key("accepted_lineage").BeginArray();
  for (const std::string& name : kv.accepted_lineage) json.String(name);
  json.EndArray();
  json.Key("pages").Integer(kv.pages);
  json.Key("free").Integer(kv.free_pages);
  json.Key("cached").Integer(kv.cached_pages);
  json.Key("page_tokens").Integer(kv.page_tokens);
  json.Key("bytes_per_token").Integer(kv.bytes_per_token);
  json.Key("bytes").Integer(kv.bytes);
  json.Key("index_bytes").Integer(kv.index_bytes);
  json.Key("state_bytes").Integer(kv.state_bytes);
  json.Key("layers").BeginArray();
  for (const KvCacheInfo::Layer& layer : kv.layers) WriteLayer(json, layer, scaled);
  json.EndArray().EndObject();
}

using Holders = std::tuple<std::vector<RequestId>, bool, int>;

Holders HoldersOf(const KvPageInfo& page) {
  return {page.requests, page.cached, page.holders};
}

bool SameHolders(const KvPageInfo& a, const KvPageInfo& b) {
  return a.holders == b.holders && a.cached == b.cached && a.requests == b.requests;
}

void WriteHolders(JsonWriter& json, const KvPageInfo& page) {
  json.BeginObject().Key("requests").BeginArray();
  for (const RequestId id : page.requests) json.Integer(static_cast<std::int64_t>(id));
  json.EndArray().Key("cached").Bool(page.cached);
  json.Key("count").Integer(page.holders).EndObject();
}

/// Neighbours mostly have the same holders: each set of them is written once, and then how many
/// pages in a row it has.
void WritePool(JsonWriter& json, const std::vector<KvPageInfo>& pool) {
  std::map<Holders, std::int64_t> numbers;
  std::vector<std::int64_t> runs;  // number of the set, pages in a row, ...
  json.BeginObject().Key("holders").BeginArray();
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (i > 0 && SameHolders(pool[i - 1], pool[i])) {
      ++runs.back();
      continue;
    }
    const auto [number, added] =
        numbers.try_emplace(HoldersOf(pool[i]), static_cast<std::int64_t>(numbers.size()));
    if (added) WriteHolders(json, pool[i]);
    runs.insert(runs.end(), {number->second, 1});
  }
  json.EndArray().Key("runs").BeginArray();
  for (const std::int64_t number : runs) json.Integer(number);
  json.EndArray().EndObject();
}

}  // namespace

std::string StateJson(const StateInput& input) {
  const EngineSnapshot& snapshot = input.snapshot;
  const EngineStatistics& statistics = snapshot.statistics;
  const bool idle = statistics.running + statistics.waiting == 0;
  const auto time = (idle ? input.now : snapshot.taken).time_since_epoch();
  std::string text;
  JsonWriter json(text);
  json.BeginObject().Key("model").String(input.model_name);
  json.Key("version").String(input.version);
  json.Key("max_model_len").Integer(input.model.max_model_len);
  json.Key("time").Number(std::chrono::duration<double>(time).count());
  WriteRequests(json, statistics);
  WriteWork(json, statistics);
  WriteKvHost(json, statistics.kv_host);
  WriteSpeculation(json, statistics.speculation);
  WriteCache(json, snapshot.kv_cache);
  json.Key("pool");
  if (snapshot.pool) {
    WritePool(json, *snapshot.pool);
  } else {
    json.Null();
  }
  json.EndObject();
  return text;
}

}  // namespace kv8
