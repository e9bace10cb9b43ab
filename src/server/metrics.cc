#include "server/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kv8 {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

/// Collects families; every sample gets the labels that all have in common.
class Families {
 public:
  explicit Families(Labels common) : common_(std::move(common)) {}

  /// Begins a family; the samples that follow belong to it.
  void Begin(const char* name, const char* help, MetricType type) {
    families_.push_back({.name = name, .help = help, .type = type});
  }
  void Add(double value, const Labels& labels = {}) {
    ClientMetric& sample = NewSample(labels);
    if (families_.back().type == MetricType::Counter) {
      sample.counter.value = value;
    } else {
      sample.gauge.value = value;
    }
  }
  template <class Number>
  void Counter(const char* name, const char* help, Number value) {
    Begin(name, help, MetricType::Counter);
    Add(static_cast<double>(value));
  }
  template <class Number>
  void Gauge(const char* name, const char* help, Number value) {
    Begin(name, help, MetricType::Gauge);
    Add(static_cast<double>(value));
  }
  void Histogram(const char* name, const char* help, const kv8::Histogram& histogram) {
    Begin(name, help, MetricType::Histogram);
    ClientMetric::Histogram& sample = NewSample({}).histogram;
    sample.sample_count = histogram.count;
    sample.sample_sum = histogram.sum;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
      below += histogram.counts[i];
      const bool last = i == histogram.bounds.size();
      sample.bucket.push_back(
          {below, last ? std::numeric_limits<double>::infinity() : histogram.bounds[i]});
    }
  }

  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  ClientMetric& NewSample(const Labels& labels) {
    ClientMetric& sample = families_.back().metric.emplace_back();
    sample.label = common_;
    sample.label.insert(sample.label.end(), labels.begin(), labels.end());
    return sample;
  }

  const Labels common_;
  std::vector<MetricFamily> families_;
};

void AddRequests(Families& out, const EngineStatistics& s) {
  out.Gauge("vllm:num_requests_running", "Sequences that hold a slot.", s.running);
  out.Gauge("vllm:num_requests_waiting", "Sequences in line.", s.waiting);
  out.Counter("vllm:num_preemptions_total", "Sequences that gave their pages back for a while.",
              s.preemptions);
  out.Begin("vllm:request_success_total", "Choices by how they ended.", MetricType::Counter);
  out.Add(static_cast<double>(s.stopped), {{"finished_reason", "stop"}});
  out.Add(static_cast<double>(s.length), {{"finished_reason", "length"}});
  out.Add(static_cast<double>(s.cancelled), {{"finished_reason", "abort"}});
  out.Add(static_cast<double>(s.failed), {{"finished_reason", "error"}});
}

void AddTokens(Families& out, const EngineStatistics& s) {
  out.Counter("vllm:prompt_tokens_total", "Prompt tokens, computed or from the prefix cache.",
              s.prompt_tokens + s.cached_tokens);
  out.Counter("vllm:generation_tokens_total", "Tokens handed out.", s.generated_tokens);
  out.Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
              s.prefix_lookup_tokens);
  out.Counter("vllm:prefix_cache_hits_total", "Prompt tokens that the prefix cache supplied.",
              s.cached_tokens);
  const NgramTableStatistics& table = s.ngram_table;
  out.Counter("kv8:ngram_rows_total", "N-gram rows wanted, where they are read from the files.",
              table.rows);
  out.Counter("kv8:ngram_cached_rows_total", "Of these, rows kept from earlier steps.",
              table.cached_rows);
  out.Counter("kv8:ngram_read_rows_total", "N-gram rows read from the files.", table.read_rows);
  out.Counter("kv8:prefix_lookups_total", "Prompts looked up in the prefix cache.",
              s.prefix_lookups);
  out.Counter("kv8:prefix_hits_total", "Prompts of which the prefix cache had a beginning.",
              s.prefix_hits);
  out.Counter("kv8:prefix_hit_pages_total", "Pages of K/V that the prefix cache supplied.",
              s.prefix_hit_pages);
  out.Gauge("kv8:prefix_snapshots", "Recurrent states that the prefix cache keeps.",
            s.prefix_snapshots);
}

void AddLatencies(Families& out, const EngineStatistics& s) {
  out.Histogram("vllm:time_to_first_token_seconds", "From submission to the first token.",
                s.first_token_seconds);
  out.Histogram("vllm:request_time_per_output_token_seconds",
                "Mean time between the tokens of a request.", s.token_seconds);
  out.Histogram("vllm:e2e_request_latency_seconds", "From submission to the last token.",
                s.request_seconds);
  out.Histogram("vllm:inter_token_latency_seconds", "Between two steps that gave a choice tokens.",
                s.inter_token_seconds);
  out.Histogram("vllm:request_queue_time_seconds", "From submission to the first row.",
                s.queue_seconds);
  out.Histogram("vllm:request_prefill_time_seconds", "From the first row to the first token.",
                s.prefill_seconds);
  out.Histogram("vllm:request_decode_time_seconds", "From the first token to the last.",
                s.decode_seconds);
}

void AddLengths(Families& out, const EngineStatistics& s) {
  out.Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.",
                s.request_prompt_tokens);
  out.Histogram("vllm:request_generation_tokens", "Tokens generated for a request.",
                s.request_generated_tokens);
  out.Histogram("vllm:request_max_num_generation_tokens", "Tokens of a request's longest choice.",
                s.request_longest_choice);
}

void AddSteps(Families& out, const EngineStatistics& s) {
  out.Counter("kv8:steps_total", "Batches run.", s.steps);
  out.Counter("kv8:rows_total", "Rows of all batches.", s.rows);
  out.Begin("kv8:step_seconds_total", "Where the engine's time went.", MetricType::Counter);
  out.Add(s.schedule_seconds, {{"part", "schedule"}});
  out.Add(s.run_seconds, {{"part", "run"}});
  out.Add(s.draft_seconds, {{"part", "draft"}});
  out.Add(s.commit_seconds, {{"part", "commit"}});
}

void AddByPosition(Families& out, const char* name, const char* help,
                   const std::vector<std::int64_t>& counts) {
  out.Begin(name, help, MetricType::Counter);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.Add(static_cast<double>(counts[i]), {{"position", std::to_string(i)}});
  }
}

void AddSpeculation(Families& out, const SpeculationStats& s) {
  out.Counter("vllm:spec_decode_num_drafts_total", "Steps that had drafts.", s.steps);
  out.Counter("vllm:spec_decode_num_draft_tokens_total", "Tokens drafted.", s.drafted);
  out.Counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.", s.accepted);
  AddByPosition(out, "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                "Accepted tokens by their place in the draft, from 0.", s.accepted_at);
  AddByPosition(out, "kv8:spec_decode_num_draft_tokens_per_pos_total",
                "Drafted tokens by their place in the draft, from 0.", s.drafted_at);
}

void AddKvCache(Families& out, const KvCacheInfo& kv) {
  const auto pages = static_cast<double>(kv.pages);
  const auto free = static_cast<double>(kv.free_pages);
  const auto cached = static_cast<double>(kv.cached_pages);
  const double page_bytes = pages > 0 ? static_cast<double>(kv.bytes) / pages : 0;
  const std::vector<std::pair<const char*, double>> owners = {
      {"free", free}, {"prefix_cache", cached}, {"requests", pages - free - cached}};
  out.Gauge("vllm:kv_cache_usage_perc", "Share of the pages that are not free, 0 to 1.",
            pages > 0 ? (pages - free) / pages : 0);
  out.Begin("kv8:kv_pages", "Pages by owner; prefix_cache counts those it shares with requests.",
            MetricType::Gauge);
  for (const auto& [owner, count] : owners) out.Add(count, {{"owner", owner}});
  out.Begin("kv8:kv_bytes", "Bytes of K and V by owner, all layers.", MetricType::Gauge);
  for (const auto& [owner, count] : owners) out.Add(count * page_bytes, {{"owner", owner}});
  out.Begin("kv8:scale_pack_info",
            "The scale pack in use, and how it belongs to the weights; an empty id: none.",
            MetricType::Gauge);
  out.Add(1, {{"id", kv.scale_pack_id},
              {"weights", std::string(Name(kv.weights_binding))},
              {"accepted_lineage", kv.accepted_lineage.empty() ? "false" : "true"}});
}

void AddKvLayers(Families& out, const KvCacheInfo& kv) {
  const auto add = [&out](const KvCacheInfo::Layer& layer, double k, double v) {
    const std::string number = std::to_string(layer.layer);
    const std::string draft = layer.draft ? "true" : "false";
    out.Add(k, {{"layer", number}, {"draft", draft}, {"side", "k"}});
    out.Add(v, {{"layer", number}, {"draft", draft}, {"side", "v"}});
  };
  out.Begin("kv8:kv_scale", "Scales in force: real = code x scale.", MetricType::Gauge);
  for (const KvCacheInfo::Layer& layer : kv.layers) add(layer, layer.k_scale, layer.v_scale);
  out.Begin("kv8:kv_saturated_values_total",
            "Values clipped at the largest code; anything but 0 asks for a new calibration.",
            MetricType::Counter);
  for (const KvCacheInfo::Layer& layer : kv.layers) {
    add(layer, static_cast<double>(layer.saturated_k), static_cast<double>(layer.saturated_v));
  }
  out.Begin("kv8:kv_flushed_values_total",
            "Values stored as 0 though they were not; a good scale flushes few of a million.",
            MetricType::Counter);
  for (const KvCacheInfo::Layer& layer : kv.layers) {
    add(layer, static_cast<double>(layer.flushed_k), static_cast<double>(layer.flushed_v));
  }
}

void AddMemory(Families& out, const MemoryPlan& plan) {
  out.Begin("kv8:memory_bytes", "Memory beside the mapped weights, by owner.", MetricType::Gauge);
  const std::vector<std::pair<const char*, std::int64_t>> owners = {
      {"kv", plan.kv},
      {"index", plan.index},
      {"draft_kv", plan.draft_kv},
      {"draft_index", plan.draft_index},
      {"states", plan.states},
      {"rollback", plan.rollback},
      {"activations", plan.activations},
      {"scratch", plan.scratch},
      {"weights", plan.weights},
      {"tables", plan.tables},
      {"snapshots", plan.snapshots},
      {"preempted", plan.preempted},
      {"kv_host", plan.kv_host}};
  for (const auto& [owner, bytes] : owners) {
    out.Add(static_cast<double>(bytes), {{"owner", owner}});
  }
}

void AddKvHost(Families& out, const KvTierStatistics& s) {
  constexpr double kGib = 1 << 30;
  out.Gauge("kv8:kv_host_budget_bytes", "Bytes that the tier in host memory may take.", s.budget);
  out.Gauge("kv8:kv_host_bytes", "Bytes that it takes.", s.bytes);
  out.Gauge("kv8:kv_host_units", "Runs of pages in it.", s.units);
  out.Gauge("kv8:kv_host_contexts", "Ends in it from which a conversation can go on.", s.contexts);
  out.Gauge(
      "kv8:kv_host_contexts_per_gib", "Of these, for each GiB that it takes.",
      s.bytes > 0 ? static_cast<double>(s.contexts) * kGib / static_cast<double>(s.bytes) : 0);
  out.Counter("kv8:kv_host_hits_total", "Prompts of which it supplied a beginning.", s.hits);
  out.Counter("kv8:kv_host_hit_pages_total", "Pages of these beginnings.", s.hit_pages);
  out.Counter("kv8:kv_host_restored_bytes_total", "Bytes copied to the device.", s.restored_bytes);
  out.Counter("kv8:kv_host_written_bytes_total", "Bytes copied from it.", s.written_bytes);
  out.Begin("kv8:kv_host_given_up_total", "What made room, or found none.", MetricType::Counter);
  out.Add(static_cast<double>(s.states_given_up), {{"what", "states"}});
  out.Add(static_cast<double>(s.units_given_up), {{"what", "units"}});
  out.Add(static_cast<double>(s.lost), {{"what", "lost"}});
  out.Gauge("kv8:kv_disk_writer", "Whether this process writes the folder of the tier on disk.",
            s.disk_writes ? 1 : 0);
  out.Gauge("kv8:kv_disk_files", "Runs of pages on disk.", s.disk_files);
  out.Gauge("kv8:kv_disk_bytes", "Bytes of these files.", s.disk_bytes);
  out.Counter("kv8:kv_disk_read_units_total", "Runs read from disk.", s.disk_read_units);
  out.Counter("kv8:kv_disk_written_units_total", "Runs written to disk.", s.disk_written_units);
  out.Counter("kv8:kv_disk_refused_total", "Files that did not hold what they said.",
              s.disk_refused);
  out.Counter("kv8:kv_disk_failed_total", "Writes that failed.", s.disk_failed);
}

void AddHttp(Families& out, const HttpStatistics& s) {
  out.Counter("kv8:http_connections_total", "Connections accepted.", s.connections.load());
  out.Gauge("kv8:http_connections", "Connections open.", s.connections_open.load());
  out.Counter("kv8:http_requests_total", "Requests parsed or refused.", s.requests.load());
  out.Counter("kv8:http_refused_total", "Requests refused before an endpoint saw them.",
              s.refused.load());
  out.Counter("kv8:http_hung_up_total", "Clients that went before their answer was out.",
              s.hung_up.load());
  out.Counter("kv8:http_cut_off_total", "Clients too slow in sending or in reading.",
              s.cut_off.load());
}

}  // namespace

std::string MetricsText(const MetricsInput& input) {
  // vLLM numbers its engines; here there is one.
  Families out({{"model_name", input.model_name}, {"engine", "0"}});
  AddRequests(out, input.statistics);
  AddTokens(out, input.statistics);
  AddLatencies(out, input.statistics);
  AddLengths(out, input.statistics);
  AddSteps(out, input.statistics);
  AddSpeculation(out, input.statistics.speculation);
  AddKvCache(out, input.kv_cache);
  AddKvLayers(out, input.kv_cache);
  AddMemory(out, input.memory);
  AddKvHost(out, input.statistics.kv_host);
  AddHttp(out, input.http);
  out.Counter("kv8:log_lines_lost_total", "Lines of the log that nobody read in time.",
              input.log_lines_lost);
  return out.Text();
}

}  // namespace kv8
