#include "server/http/server.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <exception>
#include <unordered_map>
#include <utility>

#include "server/http/asio_stream.h"
#include "server/http/session.h"

namespace kv8 {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// How exact the time limits are.
constexpr std::chrono::milliseconds kSweepInterval{100};

class AsioLoop final : public IoLoop {
 public:
  explicit AsioLoop(std::chrono::milliseconds interval) : interval_(interval) {}

  void Post(std::function<void()> work) override { asio::post(io, std::move(work)); }
  void PostLater(std::function<void()> work) override {
    later_.push_back(std::move(work));
    if (timer_runs_) return;
    timer_.expires_after(interval_);
    timer_.async_wait([this](error_code) {
      timer_runs_ = false;
      for (const auto& due : std::exchange(later_, {})) due();
    });
    timer_runs_ = true;
  }

  asio::io_context io{1};

 private:
  const std::chrono::milliseconds interval_;
  asio::steady_timer timer_{io};
  std::vector<std::function<void()>> later_;
  bool timer_runs_ = false;
};

Error BindError(const HttpServerOptions& options, const std::string& what) {
  return Error{.code = Code::kIo,
               .what = what,
               .where = fmt::format("{} port {}", options.host, options.port),
               .remedy = "choose another --host or --port; port 0 takes a free one"};
}

Result<tcp::endpoint> Resolve(asio::io_context& io, const HttpServerOptions& options) {
  error_code problem;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, problem);
  if (problem || found.empty()) {
    return BindError(options, "cannot resolve the address: " + problem.message());
  }
  return found.begin()->endpoint();
}

Result<void> CheckExposure(const HttpServerOptions& options, const tcp::endpoint& end) {
  if (end.address().is_loopback() || !options.api_keys.empty() || options.insecure) return {};
  return Error{.code = Code::kInvalidArgument,
               .what = fmt::format("{} can be reached from other machines, and no API key is set",
                                   end.address().to_string()),
               .where = "--host " + options.host,
               .remedy = "set --api-key or --api-key-file, or say --insecure"};
}

Result<void> CheckBodyLimits(const ServerLimits& limits) {
  if (limits.body_bytes <= limits.all_bodies_bytes) return {};
  return Error{.code = Code::kInvalidArgument,
               .what = fmt::format("one body may have {} bytes, and all together {}",
                                   limits.body_bytes, limits.all_bodies_bytes),
               .where = "--max-body-bytes, --max-all-bodies-bytes",
               .remedy = "give all of them at least the room of one"};
}

Result<void> Listen(tcp::acceptor& acceptor, const HttpServerOptions& options,
                    const tcp::endpoint& end) {
  error_code problem;
  acceptor.open(end.protocol(), problem);
  // A restart must not wait for the old connections' last minutes.
  if (!problem) acceptor.set_option(tcp::acceptor::reuse_address(true), problem);
  if (!problem) acceptor.bind(end, problem);
  if (!problem) acceptor.listen(asio::socket_base::max_listen_connections, problem);
  if (problem) return BindError(options, "cannot listen: " + problem.message());
  return {};
}

Result<void> LoadTls(asio::ssl::context& tls, const HttpServerOptions& options) {
  const auto refuse = [](const std::filesystem::path& path, const error_code& problem) {
    return Error{.code = Code::kCorrupt,
                 .what = "cannot be used: " + problem.message(),
                 .where = path.string(),
                 .remedy =
                     "give a certificate chain and its private key, both PEM, the key without "
                     "a passphrase"};
  };
  error_code problem;
  tls.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1,
                  problem);
  // Otherwise OpenSSL asks for a passphrase on the terminal.
  tls.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return ""; },
                            problem);
  tls.use_certificate_chain_file(options.tls_certificate.string(), problem);
  if (problem) return refuse(options.tls_certificate, problem);
  tls.use_private_key_file(options.tls_key.string(), asio::ssl::context::pem, problem);
  if (problem) return refuse(options.tls_key, problem);
  return {};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, Log& log)
      : options_(std::move(options)),
        context_(std::make_shared<SessionContext>(options_.limits)),
        loop_(std::make_shared<AsioLoop>(options_.limits.stream_interval)) {
    context_->rules.check_hosts = options_.api_keys.empty() || !options_.allowed_hosts.empty();
    context_->rules.cors_origin = options_.cors_origin;
    context_->log = &log;
  }

  Result<void> Open();
  std::string url() const;
  std::uint16_t port() const { return port_; }
  SessionContext& context() { return *context_; }

  void Run();
  void Shutdown();
  void WaitForSignals();

 private:
  void Accept();
  void OnAccepted(tcp::socket socket);
  void OnClosed(Session& session);
  bool DropIdle();
  void ScheduleSweep();
  void Sweep();
  void StopAccepting();
  void CloseAll();
  void FinishIfDone();

  const HttpServerOptions options_;
  const std::shared_ptr<SessionContext> context_;
  // Answers that come after the server has gone find the loop gone too.
  const std::shared_ptr<AsioLoop> loop_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  tcp::acceptor acceptor_{loop_->io};
  asio::steady_timer timer_{loop_->io};
  asio::signal_set signals_{loop_->io};
  std::uint16_t port_ = 0;
  bool accepting_ = false;  // an accept is under way
  std::unordered_map<Session*, std::shared_ptr<Session>> sessions_;
  Session::Clock::time_point cut_off_ = Session::Clock::time_point::max();  // of a shutdown
};

Result<void> HttpServer::Impl::Open() {
  KV8_ASSIGN_OR_RETURN(context_->rules.keys, ApiKeys::Create(options_.api_keys));
  KV8_ASSIGN_OR_RETURN(context_->rules.hosts, HostNames::Create(options_.allowed_hosts));
  KV8_RETURN_IF_ERROR(CheckBodyLimits(options_.limits));
  if (options_.tls_certificate.empty() != options_.tls_key.empty()) {
    return Error{.code = Code::kInvalidArgument,
                 .what = "TLS needs a certificate and its key",
                 .where = "--tls-certificate, --tls-key",
                 .remedy = "give both or neither"};
  }
  if (!options_.tls_key.empty()) KV8_RETURN_IF_ERROR(LoadTls(tls_, options_));
  KV8_ASSIGN_OR_RETURN(const tcp::endpoint end, Resolve(loop_->io, options_));
  KV8_RETURN_IF_ERROR(CheckExposure(options_, end));
  KV8_RETURN_IF_ERROR(Listen(acceptor_, options_, end));
  error_code problem;
  port_ = acceptor_.local_endpoint(problem).port();
  return {};
}

std::string HttpServer::Impl::url() const {
  const bool v6 = options_.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + options_.host + "]" : options_.host;
  return fmt::format("{}://{}:{}", options_.tls_key.empty() ? "http" : "https", host, port_);
}

void HttpServer::Impl::Run() {
  Accept();
  ScheduleSweep();
  for (;;) {
    try {
      loop_->io.run();
      return;
    } catch (const std::exception& problem) {
      // No memory for a connection: it is given up, and the others go on.
      context_->log->Write(LogLevel::kError, "connection failed", {{"what", problem.what()}});
    }
  }
}

void HttpServer::Impl::Accept() {
  const bool full = sessions_.size() >= options_.limits.connections;
  if (accepting_ || !acceptor_.is_open() || (full && !DropIdle())) return;
  acceptor_.async_accept([this](error_code problem, tcp::socket socket) {
    accepting_ = false;
    // Out of file descriptors, most likely: the next sweep tries again.
    if (problem) return;
    OnAccepted(std::move(socket));
    Accept();
  });
  accepting_ = true;
}

void HttpServer::Impl::OnAccepted(tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  auto stream = options_.tls_key.empty() ? MakeTcpStream(std::move(socket))
                                         : MakeTlsStream(std::move(socket), tls_);
  auto session = std::make_shared<Session>(std::move(stream), context_, loop_,
                                           [this](Session& closed) { OnClosed(closed); });
  sessions_.emplace(session.get(), session);
  ++context_->statistics.connections;
  context_->statistics.connections_open = sessions_.size();
  session->Start();
}

void HttpServer::Impl::OnClosed(Session& session) {
  sessions_.erase(&session);
  context_->statistics.connections_open = sessions_.size();
  try {
    Accept();
  } catch (const std::exception&) {
    // No memory: the next sweep tries again.
  }
  FinishIfDone();
}

/// Makes room for a client that has something to say. False when all others do too.
bool HttpServer::Impl::DropIdle() {
  std::shared_ptr<Session> oldest;
  for (const auto& [key, session] : sessions_) {
    if (!session->idle()) continue;
    if (!oldest || session->deadline() < oldest->deadline()) oldest = session;
  }
  if (!oldest) return false;
  oldest->Close();
  return true;
}

void HttpServer::Impl::ScheduleSweep() {
  timer_.expires_after(kSweepInterval);
  timer_.async_wait([this](error_code problem) {
    if (problem) return;
    try {
      Sweep();
    } catch (const std::exception&) {
      // No memory: the next sweep does it.
    }
    if (acceptor_.is_open() || !sessions_.empty()) ScheduleSweep();
  });
}

void HttpServer::Impl::Sweep() {
  const Session::Clock::time_point now = Session::Clock::now();
  std::vector<std::shared_ptr<Session>> due;  // closing changes the map
  for (const auto& [key, session] : sessions_) {
    if (session->answering() || session->deadline() <= now) due.push_back(session);
  }
  for (const auto& session : due) session->Sweep(now);
  if (now >= cut_off_) CloseAll();
  Accept();
}

void HttpServer::Impl::Shutdown() {
  const bool again = context_->shutting_down.exchange(true);
  loop_->Post([this, again] {
    if (again) return CloseAll();
    context_->log->Write(LogLevel::kInfo, "shutting down",
                         {{"answers_under_way", static_cast<std::int64_t>(sessions_.size())}});
    cut_off_ = Session::Clock::now() + options_.limits.shutdown_timeout;
    StopAccepting();
  });
}

void HttpServer::Impl::StopAccepting() {
  error_code ignored;
  acceptor_.close(ignored);
  const auto all = sessions_;  // closing changes the map
  for (const auto& [key, session] : all) session->FinishSoon();
  FinishIfDone();
}

void HttpServer::Impl::CloseAll() {
  const auto all = sessions_;
  for (const auto& [key, session] : all) session->Close();
  FinishIfDone();
}

/// Leaves Run's loop nothing to wait for.
void HttpServer::Impl::FinishIfDone() {
  if (acceptor_.is_open() || !sessions_.empty()) return;
  error_code ignored;
  timer_.cancel();
  signals_.cancel(ignored);
}

void HttpServer::Impl::WaitForSignals() {
  if (context_->shutting_down) return;
  error_code ignored;
  signals_.add(SIGINT, ignored);
  signals_.add(SIGTERM, ignored);
  signals_.async_wait([this](error_code problem, int) {
    if (problem) return;
    Shutdown();
    signals_.async_wait([this](error_code second, int) {
      if (!second) Shutdown();
    });
  });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::Create(HttpServerOptions options, Log& log) {
  auto impl = std::make_unique<Impl>(std::move(options), log);
  KV8_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Router& HttpServer::router() {
  return impl_->context().router;
}

std::uint16_t HttpServer::port() const {
  return impl_->port();
}

std::string HttpServer::url() const {
  return impl_->url();
}

const HttpStatistics& HttpServer::statistics() const {
  return impl_->context().statistics;
}

const Log& HttpServer::log() const {
  return *impl_->context().log;
}

void HttpServer::Run() {
  impl_->Run();
}

void HttpServer::Shutdown() {
  impl_->Shutdown();
}

bool HttpServer::shutting_down() const {
  return impl_->context().shutting_down;
}

void HttpServer::ShutDownOnSignals() {
  impl_->WaitForSignals();
}

}  // namespace kv8
