// The endpoints over the real engine and the bundled model, without a network.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "events.h"
#include "fake_responder.h"
#include "server/openai/api.h"

namespace kv8::openai {

inline std::shared_ptr<const Tokenizer> ModelTokenizer() {
  return std::make_shared<const Tokenizer>(Tokenizer::Load(ModelDir() / "tokenizer.json").value());
}

class ServedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.model = ModelDir();
    options.max_model_len = 1024;
    options.max_num_seqs = 4;
    options.prefix_cache_memory = 64 << 20;
    options.speculative_tokens = 2;
    options.threads = 1;
    service_ = std::make_unique<EngineService>(Engine::Create(options).value(),
                                               EngineService::Options{.max_requests = 8});
    api_ = Api::Create(*service_, {.tokenizer = ModelTokenizer(), .model_dir = ModelDir()}).value();
    router_ = std::make_unique<Router>();
    api_->AddRoutes(*router_);
  }
  static void TearDownTestSuite() {
    service_->Stop();
    router_.reset();
    api_.reset();
    service_.reset();
  }

  static std::shared_ptr<FakeResponder> Start(const std::string& method, const std::string& path,
                                              std::string body = "") {
    const auto responder = std::make_shared<FakeResponder>();
    const Router::Match match = router_->Find(method, path);
    (*match.handler)({.method = method, .path = path, .body = std::move(body)}, responder);
    return responder;
  }
  static std::shared_ptr<FakeResponder> Call(const std::string& path, const std::string& members) {
    const auto responder = Start("POST", path, R"({"model": "tiny-qwen4exp", )" + members + "}");
    responder->WaitUntilComplete();
    return responder;
  }
  static OrderedJson Answer(const std::string& path, const std::string& members) {
    const auto responder = Call(path, members);
    EXPECT_EQ(responder->status(), 200) << responder->body();
    return responder->json();
  }
  static OrderedJson Complete(const std::string& members) {
    return Answer("/v1/completions", members);
  }
  static OrderedJson Chat(const std::string& members) {
    return Answer("/v1/chat/completions", members);
  }

  inline static std::unique_ptr<EngineService> service_;
  inline static std::unique_ptr<Api> api_;
  inline static std::unique_ptr<Router> router_;
};

}  // namespace kv8::openai
