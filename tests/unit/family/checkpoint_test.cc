#include "family/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/file.h"
#include "base/sha256.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

const std::filesystem::path kModel = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";
constexpr const char* kIndex = "model.safetensors.index.json";

/// A directory with links to the bundled model's files, some of which a test replaces.
class Variant {
 public:
  Variant() {
    for (const auto& entry : std::filesystem::directory_iterator(kModel)) {
      std::filesystem::create_symlink(entry.path(), dir_.path() / entry.path().filename());
    }
  }

  void Remove(const std::string& name) { std::filesystem::remove(dir_ / name); }
  void Write(const std::string& name, std::string_view content) {
    Remove(name);
    test::WriteFile(dir_ / name, content);
  }
  /// Adds a shard with `content` and moves its tensors there in the index.
  void AddShard(const std::string& name, const SafetensorsContent& content) {
    Write(name, SerializeSafetensors(content));
    Json index = *ReadJsonFile(dir_ / kIndex, 1 << 20);
    for (const auto& [tensor, view] : content.tensors) index["weight_map"][tensor] = name;
    Write(kIndex, DumpJson(index));
  }
  Result<Checkpoint> Open() const { return Checkpoint::Open(dir_.path()); }

 private:
  test::TempDir dir_;
};

TEST(Checkpoint, OpensTheBundledModel) {
  const auto checkpoint = Checkpoint::Open(kModel);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->dir(), kModel);
  EXPECT_EQ(checkpoint->tensors().size(), 350u);
  EXPECT_EQ(checkpoint->layer_prefix(), "model.language_model.layers.");
  EXPECT_EQ(checkpoint->stop_ids(), (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(checkpoint->index_sha256(), *Sha256File(kModel / kIndex));
  EXPECT_EQ(checkpoint->FileOf("mtp.fc_hidden.weight"),
            kModel / "model-00005-of-00005.safetensors");
  EXPECT_EQ(checkpoint->FileOf("no.such"), "");
}

TEST(Checkpoint, FindsAndChecksTensors) {
  const auto checkpoint = Checkpoint::Open(kModel);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_TRUE(checkpoint->Get("model.embed_tokens.weight", {{6144, 192}}).ok());
  EXPECT_EQ(checkpoint->Find("model.language_model.embed_tokens.weight"), nullptr);

  const auto absent = checkpoint->Get("model.norm.weight", {{192}});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().what, HasSubstr("model.norm.weight"));

  const auto shape = checkpoint->Get("model.embed_tokens.weight", {{6144, 193}});
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().code, Code::kMismatch);
  EXPECT_THAT(shape.error().where, HasSubstr("model-00001-of-00005.safetensors"));
  EXPECT_THAT(shape.error().where, HasSubstr("model.embed_tokens.weight"));
  EXPECT_THAT(shape.error().what, HasSubstr("[6144, 192]"));
  EXPECT_THAT(shape.error().what, HasSubstr("[6144, 193]"));
}

TEST(Checkpoint, TheIndexIsTheAllowlist) {
  Variant variant;
  const float scale = 0.25f;
  const SafetensorsContent extra{
      .tensors = {{"model.language_model.layers.3.self_attn.k_scale",
                   {reinterpret_cast<const std::byte*>(&scale), DType::kF32, {}}}},
      .metadata = {}};
  variant.Write("scales.safetensors", SerializeSafetensors(extra));
  EXPECT_EQ(variant.Open()->Find("model.layers.3.self_attn.k_scale"), nullptr);

  variant.AddShard("scales.safetensors", extra);
  const auto checkpoint = variant.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  const TensorView* view = checkpoint->Find("model.layers.3.self_attn.k_scale");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(std::memcmp(view->data, &scale, sizeof(scale)), 0);
}

TEST(Checkpoint, TensorsThatTheIndexMovedElsewhereComeFromThere) {
  Variant variant;
  const auto base = Checkpoint::Open(kModel);
  const TensorView norm = *base->Find("mtp.pre_fc_norm_embedding.weight");
  const std::vector<std::byte> zeros(static_cast<std::size_t>(norm.bytes()));
  variant.AddShard(
      "norm.safetensors",
      {.tensors = {{"mtp.pre_fc_norm_embedding.weight", {zeros.data(), norm.dtype, norm.shape}}},
       .metadata = {}});
  const auto checkpoint = variant.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->FileOf("mtp.pre_fc_norm_embedding.weight").filename(), "norm.safetensors");
  EXPECT_EQ(checkpoint->Find("mtp.pre_fc_norm_embedding.weight")->data[0], std::byte{0});
}

/// One file with every tensor under the names that `rename` gives them.
std::string SingleFile(const std::function<std::string(std::string)>& rename,
                       const Checkpoint& base) {
  SafetensorsContent content;
  for (const auto& [name, view] : base.tensors()) content.tensors.emplace(rename(name), view);
  return SerializeSafetensors(content);
}

TEST(Checkpoint, OpensASingleFileWithShortPrefixes) {
  const auto base = Checkpoint::Open(kModel);
  Variant variant;
  variant.Remove(kIndex);
  const auto keep = [](std::string name) { return name; };
  variant.Write("model.safetensors", SingleFile(keep, *base));
  const auto checkpoint = variant.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->tensors().size(), base->tensors().size());
  EXPECT_EQ(checkpoint->layer_prefix(), "model.layers.");
  EXPECT_EQ(checkpoint->index_sha256(), "");
  EXPECT_EQ(checkpoint->KvWeightsSha256(), base->KvWeightsSha256());
}

TEST(Checkpoint, VisionAndTheDraftsCopyOfTheHeadAreLeftOut) {
  const auto base = Checkpoint::Open(kModel);
  const TensorView head = *base->Find("lm_head.weight");
  const std::uint8_t byte = 0;
  Variant variant;
  variant.AddShard("extra.safetensors",
                   {.tensors = {{"mtp.shared_head.head.weight", head},
                                {"model.visual.pos_embed.weight",
                                 {reinterpret_cast<const std::byte*>(&byte), DType::kU8, {1}}}},
                    .metadata = {}});
  const auto checkpoint = variant.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->tensors().size(), base->tensors().size());
}

TEST(Checkpoint, StopIdsFallBackToTheConfig) {
  Variant variant;
  variant.Remove("generation_config.json");
  EXPECT_EQ(variant.Open()->stop_ids(), (std::vector<TokenId>{0}));
}

TEST(Checkpoint, KvIdentityFollowsTheWeightsThatMakeKv) {
  const auto base = Checkpoint::Open(kModel);
  const auto changed = [&](const std::string& file_name, const std::string& canonical) {
    TensorView view = *base->Find(canonical);
    std::vector<std::byte> bytes(view.data, view.data + view.bytes());
    bytes[0] ^= std::byte{1};
    view.data = bytes.data();
    Variant variant;
    variant.AddShard("changed.safetensors", {.tensors = {{file_name, view}}, .metadata = {}});
    return variant.Open()->KvWeightsSha256();
  };
  const std::string identity = base->KvWeightsSha256();
  EXPECT_EQ(identity.size(), 64u);
  EXPECT_NE(identity, changed("mtp.layers.0.self_attn.k_norm.weight",
                              "mtp.layers.0.self_attn.k_norm.weight"));
  EXPECT_NE(identity, changed("model.language_model.layers.7.self_attn.v_proj.weight",
                              "model.layers.7.self_attn.v_proj.weight"));
  EXPECT_EQ(identity, changed("model.language_model.layers.7.self_attn.q_proj.weight",
                              "model.layers.7.self_attn.q_proj.weight"));
}

TEST(Checkpoint, NamesADirectoryThatIsNone) {
  const auto absent = Checkpoint::Open(kModel / "absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  const auto file = Checkpoint::Open(kModel / "config.json");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kInvalidArgument);
  EXPECT_THAT(file.error().where, HasSubstr("config.json"));
}

}  // namespace
}  // namespace kv8
