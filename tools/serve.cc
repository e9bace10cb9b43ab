// kv8 serve: an OpenAI-compatible HTTP server.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "engine_flags.h"
#include "family/model_config.h"
#include "output.h"
#include "prompt.h"
#include "server/engine_service.h"
#include "server/http/log.h"
#include "server/http/server.h"
#include "server/openai/api.h"
#include "server/operations.h"
#include "server/page/page.h"

namespace kv8 {
namespace {

struct ServeOptions {
  EngineFlags engine;
  HttpServerOptions http;
  std::filesystem::path api_key_file;
  std::vector<std::string> served_model_names;
  std::string generation_config = "auto";
  std::size_t max_queued = 1024;
  bool share_prefixes = false;
  bool allow_control_tokens = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  bool json = false;
};

const std::map<std::string, LogLevel> kLogLevels = {{"debug", LogLevel::kDebug},
                                                    {"info", LogLevel::kInfo},
                                                    {"warning", LogLevel::kWarning},
                                                    {"error", LogLevel::kError},
                                                    {"off", LogLevel::kOff}};
const std::map<std::string, LogFormat> kLogFormats = {{"text", LogFormat::kText},
                                                      {"json", LogFormat::kJson}};

/// One key a line; empty lines do not count.
Result<std::vector<std::string>> ReadKeys(const std::filesystem::path& path) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  std::vector<std::string> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) keys.push_back(line);
  }
  if (keys.empty()) {
    return Error{.code = Code::kInvalidArgument,
                 .what = "the file holds no key",
                 .where = path.string(),
                 .remedy = "write one key a line"};
  }
  return keys;
}

bool UsesDefaults(const ServeOptions& options) {
  return options.generation_config != "none";
}

/// Nothing of generation_config.json is dropped without a word.
void TellDefaults(const ModelInfo& model, Log& log) {
  const std::vector<std::string>& fields = model.generation.unsupported;
  if (fields.empty()) return;
  log.Write(LogLevel::kWarning, "generation_config.json asks for what kv8 does not have",
            {{"fields", fmt::format("{}", fmt::join(fields, ","))}});
}

Result<void> Announce(const HttpServer& server, const std::string& model, bool json, Log& log) {
  const std::string url = server.url();
  log.Write(LogLevel::kInfo, "listening", {{"url", url}, {"model", model}});
  if (!json) return {};
  return WriteJson({{"url", url}, {"port", server.port()}, {"model", model}});
}

Result<void> AddKeysOfFile(ServeOptions& options) {
  if (options.api_key_file.empty()) return {};
  KV8_ASSIGN_OR_RETURN(const std::vector<std::string> keys, ReadKeys(options.api_key_file));
  options.http.api_keys.insert(options.http.api_keys.end(), keys.begin(), keys.end());
  return {};
}

Result<void> Serve(ServeOptions options) {
  KV8_RETURN_IF_ERROR(AddKeysOfFile(options));
  Log log(options.log_level, options.log_format);
  // The address comes first: a port that is taken must not cost the time of loading a model.
  KV8_ASSIGN_OR_RETURN(const auto server, HttpServer::Create(options.http, log));
  const NoteSink note = [&log](std::string_view line) { log.Write(LogLevel::kWarning, line); };
  // A wrong directory or another family's checkpoint is named before its tokenizer is missed.
  KV8_RETURN_IF_ERROR(LoadModelSpec(options.engine.model));
  KV8_ASSIGN_OR_RETURN(const auto tokenizer, ModelTokenizer(options.engine.model).Get());
  KV8_ASSIGN_OR_RETURN(auto engine, OpenEngine(options.engine, 0, tokenizer, note));
  if (UsesDefaults(options)) TellDefaults(engine->model(), log);
  std::optional<Error> failure;  // read once the engine's thread has ended
  const auto stop = [&](const Error& error) {
    failure = error;
    server->Shutdown();
  };
  EngineService service(std::move(engine),
                        {.max_requests = options.max_queued, .on_failure = stop});
  KV8_ASSIGN_OR_RETURN(
      const auto api,
      openai::Api::Create(service, {.tokenizer = tokenizer,
                                    .model_dir = options.engine.model,
                                    .model_names = options.served_model_names,
                                    .generation_config = UsesDefaults(options),
                                    .share_prefixes = options.share_prefixes,
                                    .allow_control_tokens = options.allow_control_tokens,
                                    .max_waiting = options.max_queued}));
  AddOperationsRoutes(*server, service, api->model_name(), KV8_VERSION);
  AddPageRoutes(server->router(), service, api->model_name(), KV8_VERSION);
  api->AddRoutes(server->router());
  server->ShutDownOnSignals();
  KV8_RETURN_IF_ERROR(Announce(*server, api->model_name(), options.json, log));
  server->Run();
  service.Stop();  // before what its answers use goes
  log.Write(LogLevel::kInfo, "stopped");
  if (failure) return *failure;
  return {};
}

void AddEngineSizeFlags(CLI::App& app, ServeOptions& options) {
  app.add_option("--speculative-tokens", options.engine.speculative_tokens,
                 "Tokens that the draft head proposes in each step")
      ->check(WholeNumberWithin(0, 5))
      ->capture_default_str();
  app.add_option("--max-num-seqs", options.engine.max_num_seqs, "Requests that run at once")
      ->check(WholeNumberWithin(1, 4096))
      ->capture_default_str();
  app.add_option("--prefix-cache-memory", options.engine.prefix_cache_memory,
                 "Bytes for states of earlier prompts; 0: no prefix cache")
      ->check(WholeNumberWithin(0, INT64_MAX))
      ->capture_default_str();
  AddTierFlags(app, options.engine.kv_host_memory, options.engine.kv_disk,
               options.engine.kv_disk_quota);
  app.add_flag(
      "--cache-generated", options.engine.cache_generated,
      "Share answers too: the next turn of a chat costs less, but its tokens may differ from "
      "those of a server that never saw the turn before");
  app.add_flag("--share-prefixes", options.share_prefixes,
               "Let clients with different keys share cached prompts: how long one takes, and its "
               "usage, then tell whether another client sent its beginning before");
  app.add_option("--max-queued-requests", options.max_queued,
                 "Requests taken and not finished; more are answered 429")
      ->check(WholeNumberWithin(1, 1 << 20))
      ->capture_default_str();
}

void AddRequestFlags(CLI::App& app, ServeOptions& options) {
  app.add_option("--served-model-name", options.served_model_names,
                 "Name for clients; may be repeated; default: the model directory's");
  app.add_option("--generation-config", options.generation_config,
                 "auto: requests that do not set temperature, top_p and so on get what the "
                 "checkpoint's generation_config.json says; none: OpenAI's defaults")
      ->check(CLI::IsMember({"auto", "none"}))
      ->capture_default_str();
  AddControlTokensFlag(app, options.allow_control_tokens);
}

void AddAddressFlags(CLI::App& app, ServeOptions& options) {
  HttpServerOptions& http = options.http;
  app.add_option("--host", http.host, "Address to listen on")->capture_default_str();
  app.add_option("--port", http.port, "Port; 0: a free one")
      ->check(WholeNumberWithin(0, UINT16_MAX))
      ->capture_default_str();
  app.add_option("--api-key", http.api_keys,
                 "Key that clients must send; may be repeated. Others can see command lines: "
                 "prefer the environment variable or --api-key-file")
      ->envname("KV8_API_KEY");
  app.add_option("--api-key-file", options.api_key_file, "File of keys, one a line")
      ->check(NotEmpty());
  app.add_flag("--insecure", http.insecure, "Listen where other machines can reach, without a key");
  app.add_option("--tls-certificate", http.tls_certificate, "Certificate chain, PEM")
      ->check(NotEmpty());
  app.add_option("--tls-key", http.tls_key, "Private key, PEM")->check(NotEmpty());
  app.add_option("--cors-origin", http.cors_origin,
                 "Origin whose web pages may call this server; * for any");
  app.add_option("--allowed-host", http.allowed_hosts,
                 "Name that requests may use for this server, beside localhost and addresses; may "
                 "be repeated; * for any. Checked without a key, or when given");
}

void AddSeconds(CLI::App& app, const char* name, std::chrono::milliseconds& value,
                const char* help) {
  const auto set = [&value](const double& seconds) {
    value = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  app.add_option_function<double>(name, set, help)
      ->check(NumberWithin(0.1, 1e6))
      ->default_str(fmt::format("{}", std::chrono::duration<double>(value).count()));
}

void AddLimitFlags(CLI::App& app, ServerLimits& limits) {
  const auto add_size = [&app](const char* name, std::size_t& value, const char* help) {
    app.add_option(name, value, help)->check(WholeNumberWithin(1, 1 << 30))->capture_default_str();
  };
  add_size("--max-body-bytes", limits.body_bytes, "Largest request body");
  add_size("--max-all-bodies-bytes", limits.all_bodies_bytes,
           "Request bodies in memory, all together");
  add_size("--max-header-bytes", limits.header_bytes, "Largest request head");
  add_size("--max-connections", limits.connections, "Open connections; more wait");
  add_size("--max-stream-buffer", limits.stream_buffer,
           "Bytes that may wait for a slow reader before it is cut off");
  AddSeconds(app, "--header-timeout", limits.header_timeout, "Seconds to send a request's head");
  AddSeconds(app, "--body-timeout", limits.body_timeout, "Seconds to send a request's body");
  AddSeconds(app, "--idle-timeout", limits.idle_timeout, "Seconds between two requests");
  AddSeconds(app, "--write-timeout", limits.write_timeout,
             "Seconds without the client taking anything");
  AddSeconds(app, "--shutdown-timeout", limits.shutdown_timeout,
             "Seconds to finish answers after SIGTERM or SIGINT");
}

}  // namespace

CommandRun SetUpServe(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  options->engine.max_num_seqs = 8;
  options->engine.prefix_cache_memory = std::int64_t{256} << 20;
  AddEngineFlags(app, options->engine, "the checkpoint's limit");
  AddEngineSizeFlags(app, *options);
  AddRequestFlags(app, *options);
  AddAddressFlags(app, *options);
  AddLimitFlags(app, options->http.limits);
  AddChoice(app, "--log-level", options->log_level, kLogLevels, "Least important lines to write");
  AddChoice(app, "--log-format", options->log_format, kLogFormats, "Form of a line");
  app.add_flag("--json", options->json,
               "Print the address as one JSON object on standard output once requests are taken");
  return [options] { return Serve(*options); };
}

}  // namespace kv8
