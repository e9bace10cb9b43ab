// What the statements about scale packs are tried on.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scalepack/kv_scales.h"
#include "scalepack/materialize.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8::test {

/// A pack of the bundled model, a view of both, and copies of the model with scales of their own.
class PackTest : public testing::Test {
 protected:
  void SetUp() override { MakePack(pack_); }
  void Restore() {
    std::filesystem::remove_all(pack_);
    MakePack(pack_);
  }
  Result<KvScales> Load(bool need_draft = true) const {
    return LoadKvScales(TinyModel(), pack_, need_draft);
  }
  Result<MaterializeSummary> MakeView() const {
    return Materialize({TinyModelDir(), pack_, view_, {}, {}, {}});
  }
  Result<KvScales> LoadView() const {
    KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(view_));
    return LoadKvScales(checkpoint, std::nullopt, true);
  }
  /// A copy of the model with these tensors in a shard of their own.
  Result<KvScales> LoadOwn(const ScaleFile& file) {
    const std::filesystem::path model = dir_ / fmt::format("model{}", copies_++);
    CopyTinyModel(model);
    AddShard(model, "extra.safetensors", file);
    return LoadKvScales(Checkpoint::Open(model).value(), std::nullopt, false);
  }
  TempDir dir_;
  std::filesystem::path pack_ = dir_ / "pack";
  std::filesystem::path view_ = dir_ / "view";
  int copies_ = 0;
};

}  // namespace kv8::test
