// What HTTP costs: a request, a streamed token, and a whole completion beside the same one by the
// engine alone. Server and client share the process and the machine. Forward passes take most of a
// completion and vary more than HTTP costs: "beside_us" is the time of one without them, so what
// the server adds is the difference of two such figures.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

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
      "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
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

/// Times the loop it is made before; `run_seconds` are those of the engine's forward passes.
class BesideTheModel {
 public:
  explicit BesideTheModel(double run_seconds) : run_seconds_(run_seconds) {}
  void Report(benchmark::State& state, double run_seconds) const {
    const std::chrono::duration<double, std::micro> wall = Clock::now() - begin_;
    const double run = (run_seconds - run_seconds_) * 1e6;
    state.counters["beside_us"] = (wall.count() - run) / static_cast<double>(state.iterations());
  }

 private:
  using Clock = std::chrono::steady_clock;
  const double run_seconds_;
  const Clock::time_point begin_ = Clock::now();
};

/// Tokens of range(0), streamed or in one answer.
void CompletionOverHttp(benchmark::State& state, bool stream) {
  auto engine = OpenOrSkip(state, Options());
  if (!engine) return;
  RunningServer server;
  EngineService service(std::move(engine), {});
  const auto api = openai::Api::Create(
      service, {.model_dir = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp"});
  if (!api.ok()) return state.SkipWithError(api.error().ToString().c_str());
  (*api)->AddRoutes(server.router());
  server.Start();
  Client client(server.port());
  const std::string body =
      fmt::format(R"({{"model":"tiny-qwen4exp","prompt":[300,301,302,303,304,305,306,307],)"
                  R"("max_tokens":{},"temperature":0,"ignore_eos":true,"stream":{}}})",
                  state.range(0), stream);
  const std::string request = Post("/v1/completions", body);
  const BesideTheModel beside(service.snapshot()->statistics.run_seconds);
  for (auto _ : state) {
    client.Send(request);
    if (!client.SkipPast(stream ? "\r\n0\r\n\r\n" : "\"total_tokens\"")) {
      state.SkipWithError("the connection ended");
    }
    if (!stream) client.SkipPast("}");
  }
  // The idle engine's snapshot is that of its last step.
  while (service.snapshot()->statistics.running > 0) std::this_thread::yield();
  beside.Report(state, service.snapshot()->statistics.run_seconds);
}
BENCHMARK_CAPTURE(CompletionOverHttp, answer, false)->Arg(1)->Arg(100)->UseRealTime();
BENCHMARK_CAPTURE(CompletionOverHttp, stream, true)->Arg(1)->Arg(100)->UseRealTime();

void CompletionByTheEngine(benchmark::State& state) {
  const auto engine = OpenOrSkip(state, Options());
  if (!engine) return;
  Request request;
  request.prompt = {300, 301, 302, 303, 304, 305, 306, 307};
  request.max_tokens = state.range(0);
  request.ignore_eos = true;
  request.text = true;
  const BesideTheModel beside(engine->statistics().run_seconds);
  for (auto _ : state) {
    const auto done = engine->Generate(request);
    if (!done.ok()) state.SkipWithError(done.error().ToString().c_str());
  }
  beside.Report(state, engine->statistics().run_seconds);
}
BENCHMARK(CompletionByTheEngine)->Arg(1)->Arg(100)->UseRealTime();

}  // namespace
}  // namespace kv8::bench
