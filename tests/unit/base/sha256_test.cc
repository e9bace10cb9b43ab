#include "base/sha256.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(Sha256, KnownVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, UpdatesAddUp) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), Sha256Hex("abc"));
}

TEST(Sha256, AbsentFileIsAnError) {
  EXPECT_EQ(Sha256File("/nonexistent/file").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace kv8
