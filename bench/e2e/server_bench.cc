// What HTTP costs: a request, a streamed token, and what the whole server adds to the engine.
// Server and client share the process and the machine.
//
// "_us" is what a client waits longer than for the engine alone, with the client's own work and
// with what server and client take from the engine's threads where cores are few. "_cpu_us" is the
// server's further work on the CPU, without the client's; the engine's threads wait awake, so it
// counts their waiting too.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench_engine.h"
#include "server/engine_service.h"
#include "server/http/server.h"
#include "server/openai/api.h"

namespace kv8::bench {
namespace {

constexpr int kStreamedTokens = 1000;
constexpr std::string_view kEvent =
    "data: {\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1764446400,"
    "\"model\":\"tiny-qwen4exp\",\"choices\":[{\"index\":0,\"text\":\" token\",\"logprobs\":null,"
    "\"finish_reason\":null}]}\n\n";

/// One kept connection.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    good_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd_); }

  void Send(std::string_view bytes) {
    good_ = good_ && ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                         static_cast<ssize_t>(bytes.size());
  }
  /// Reads up to and with `mark`. False when the connection ended first.
  bool SkipPast(std::string_view mark) {
    std::size_t at = waiting_.find(mark);
    while (good_ && at == std::string::npos) {
      char buffer[65536];
      const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
      good_ = got > 0;
      if (!good_) break;
      const std::size_t from = waiting_.size() < mark.size() ? 0 : waiting_.size() - mark.size();
      waiting_.append(buffer, static_cast<std::size_t>(got));
      at = waiting_.find(mark, from);
    }
    if (good_) waiting_.erase(0, at + mark.size());
    return good_;
  }

 private:
  int fd_;
  bool good_ = false;
  std::string waiting_;
};

/// Serves on a thread until it goes.
class RunningServer {
 public:
  RunningServer() : server_(HttpServer::Create({.port = 0}, log_).value()) {}
  ~RunningServer() {
    server_->Shutdown();
    server_->Shutdown();
    thread_.join();
  }
  Router& router() { return server_->router(); }
  std::uint16_t port() const { return server_->port(); }
  void Start() {
    thread_ = std::thread([this] { server_->Run(); });
  }

 private:
  Log log_{LogLevel::kOff, LogFormat::kText};
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

std::string Post(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      path, body.size(), body);
}

void HttpRequestAndAnswer(benchmark::State& state) {
  RunningServer server;
  server.router().Add("POST", "/echo", [](const HttpRequest& request, const auto& answer) {
    answer->Send(200, "application/json", request.body);
  });
  server.Start();
  Client client(server.port());
  const std::string request = Post("/echo", std::string(500, 'x') + "END");
  for (auto _ : state) {
    client.Send(request);
    if (!client.SkipPast("END")) state.SkipWithError("the connection ended");
  }
}
BENCHMARK(HttpRequestAndAnswer)->UseRealTime();

/// The writer waits for nobody, so this is the time of the transport, with its thread and the
/// client's as neighbours.
void HttpStreamedToken(benchmark::State& state) {
  RunningServer server;
  std::thread writer;
  server.router().Add("POST", "/stream", [&](const HttpRequest&, std::shared_ptr<Responder> to) {
    if (writer.joinable()) writer.join();
    writer = std::thread([to = std::move(to)] {
      to->BeginStream(200, "text/event-stream");
      for (int i = 0; i < kStreamedTokens; ++i) to->Write(kEvent);
      to->End();
    });
  });
  server.Start();
  Client client(server.port());
  for (auto _ : state) {
    client.Send(Post("/stream", "{}"));
    if (!client.SkipPast("\r\n0\r\n\r\n")) state.SkipWithError("the connection ended");
  }
  state.SetItemsProcessed(state.iterations() * kStreamedTokens);
  writer.join();
}
BENCHMARK(HttpStreamedToken)->UseRealTime()->Unit(benchmark::kMillisecond);

EngineOptions Options() {
  EngineOptions options;
  options.max_model_len = 4096;
  return options;
}

double Micros(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// What something took: on the wall, and of all cores.
struct Cost {
  double wall = 0;
  double cpu = 0;

  friend Cost operator-(Cost a, Cost b) { return {a.wall - b.wall, a.cpu - b.cpu}; }
};

Cost Now() {
  return {Micros(CLOCK_MONOTONIC), Micros(CLOCK_PROCESS_CPUTIME_ID)};
}

/// A server with an engine of its own, and its client.
class CompletionServer {
 public:
  CompletionServer(std::unique_ptr<Engine> engine, bool stream)
      : stream_(stream), service_(std::move(engine), {}) {}

  Result<void> Start() {
    const auto model = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";
    KV8_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(model / "tokenizer.json"));
    openai::ApiOptions options{.tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer)),
                               .model_dir = model};
    KV8_ASSIGN_OR_RETURN(api_, openai::Api::Create(service_, options));
    api_->AddRoutes(server_.router());
    server_.Start();
    client_.emplace(server_.port());
    return {};
  }
  /// Without the client's own work on the CPU.
  Cost Complete(int tokens) {
    const std::string request =
        Post("/v1/completions",
             fmt::format(R"({{"model":"tiny-qwen4exp","prompt":[300,301,302,303,304,305,306,307],)"
                         R"("max_tokens":{},"temperature":0,"ignore_eos":true,"stream":{}}})",
                         tokens, stream_));
    const Cost begin = Now();
    const double client = Micros(CLOCK_THREAD_CPUTIME_ID);
    client_->Send(request);
    good_ = client_->SkipPast(stream_ ? "\r\n0\r\n\r\n" : "\"total_tokens\"") && good_;
    if (!stream_) client_->SkipPast("}");
    Cost cost = Now() - begin;
    cost.cpu -= Micros(CLOCK_THREAD_CPUTIME_ID) - client;
    return cost;
  }
  bool good() const { return good_; }

 private:
  const bool stream_;
  bool good_ = true;
  // The server goes first: until then what its handlers use must live.
  EngineService service_;
  std::unique_ptr<openai::Api> api_;
  RunningServer server_;
  std::optional<Client> client_;
};

/// `good` becomes false when the engine fails.
Cost CompleteAlone(Engine& engine, int tokens, bool& good) {
  Request request;
  request.prompt = {300, 301, 302, 303, 304, 305, 306, 307};
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.text = true;
  const Cost begin = Now();
  good = engine.Generate(request).ok() && good;
  return Now() - begin;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Report(benchmark::State& state, const std::string& what, const std::vector<Cost>& costs) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (const Cost& cost : costs) {
    wall.push_back(cost.wall);
    cpu.push_back(cost.cpu);
  }
  state.counters[what + "_us"] = Median(std::move(wall));
  state.counters[what + "_cpu_us"] = Median(std::move(cpu));
}

/// Completions of one token and of many over HTTP, each beside the same by an engine alone, in
/// turn, so that what else the machine does meets both. The medians of the differences are what the
/// server adds: "request" to a completion of one token, "token" to each further one.
void OverTheEngine(benchmark::State& state, bool stream) {
  constexpr int kFurther = 100;
  auto engine = OpenOrSkip(state, Options());
  const auto alone = OpenOrSkip(state, Options());
  if (!engine || !alone) return;
  CompletionServer server(std::move(engine), stream);
  if (const auto started = server.Start(); !started.ok()) {
    return state.SkipWithError(started.error().ToString().c_str());
  }
  std::vector<Cost> requests;
  std::vector<Cost> tokens;
  bool good = true;
  for (auto _ : state) {
    const Cost one = server.Complete(1) - CompleteAlone(*alone, 1, good);
    const Cost more = server.Complete(1 + kFurther) - CompleteAlone(*alone, 1 + kFurther, good);
    const Cost further = more - one;
    requests.push_back(one);
    tokens.push_back({further.wall / kFurther, further.cpu / kFurther});
  }
  if (!server.good()) return state.SkipWithError("the connection ended");
  if (!good) return state.SkipWithError("the engine alone failed");
  Report(state, "request", requests);
  Report(state, "token", tokens);
}
BENCHMARK_CAPTURE(OverTheEngine, answer, false)->UseRealTime()->Iterations(50);
BENCHMARK_CAPTURE(OverTheEngine, stream, true)->UseRealTime()->Iterations(50);

}  // namespace
}  // namespace kv8::bench
