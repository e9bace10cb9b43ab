#include "arm_flags.h"

#include "engine_flags.h"
#include "flag_checks.h"

namespace kv8 {
namespace {

ArmSpec ArmOf(const std::string& dtype, const std::filesystem::path& pack) {
  ArmSpec arm{.dtype = KvDTypeOf(dtype), .scale_pack = {}};
  if (arm.dtype == KvDType::kE4M3 && !pack.empty()) arm.scale_pack = pack;
  return arm;
}

}  // namespace

ArmSpec ArmFlags::A() const {
  return ArmOf(a, a_scale_pack.empty() ? scale_pack : a_scale_pack);
}

ArmSpec ArmFlags::B() const {
  return ArmOf(b, scale_pack);
}

void AddArmFlags(CLI::App& app, ArmFlags& flags) {
  const auto dtypes = OneOf({"fp16", "fp8_e4m3", "fp32", "fp8"});
  app.add_option("--a", flags.a, "Element type of A's K/V cache")
      ->check(dtypes)
      ->capture_default_str();
  auto* const b = app.add_option("--b", flags.b, "Element type of B's K/V cache")->check(dtypes);
  if (flags.b.empty()) {
    b->default_str("none: A alone");
  } else {
    b->capture_default_str();
  }
  app.add_option("--scale-pack", flags.scale_pack,
                 "Scale pack of an E4M3 cache; default: the checkpoint's own scales")
      ->check(NotEmpty());
  app.add_option("--a-scale-pack", flags.a_scale_pack,
                 "Scale pack of A alone, to compare two; default: that of --scale-pack")
      ->check(NotEmpty());
}

}  // namespace kv8
