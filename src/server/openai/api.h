// The OpenAI-compatible endpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "server/engine_service.h"
#include "server/http/router.h"
#include "server/openai/api_context.h"
#include "server/task_queue.h"

namespace kv8::openai {

struct ApiOptions {
  std::shared_ptr<const Tokenizer> tokenizer;  // of the model
  std::filesystem::path model_dir;             // with the chat template if there is one
  std::vector<std::string> model_names;        // of the one model; none: the directory's name
  bool generation_config = true;  // the checkpoint's defaults, not OpenAI's, for what is not said
  bool share_prefixes = false;    // of prompts between clients with different keys
  bool allow_control_tokens = false;  // in the texts of users and tools
  std::size_t max_waiting = 1024;     // requests whose bodies wait to be read; more: 429
};

class Api {
 public:
  /// Reads what the endpoints need. `service` outlives the object.
  /// Errors: those of reading the chat template.
  static Result<std::unique_ptr<Api>> Create(EngineService& service, const ApiOptions& options);

  /// Adds every endpoint. The object outlives the router's use.
  void AddRoutes(Router& router);

  /// What the model is called where one name must do.
  const std::string& model_name() const { return context_.model_names.front(); }

 private:
  Api(ApiContext context, const ApiOptions& options);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ApiContext context_;
  TaskQueue tasks_;  // the last member: its tasks use the others
};

}  // namespace kv8::openai
