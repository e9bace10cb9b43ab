#include "tensor/dtype.h"

#include <array>
#include <cassert>

namespace kv8 {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
};

constexpr std::array kRows = {
    Row{DType::kBF16, "BF16", 16},
    Row{DType::kF16, "F16", 16},
    Row{DType::kF32, "F32", 32},
    Row{DType::kF64, "F64", 64},
    Row{DType::kF8E4M3, "F8_E4M3", 8},
    Row{DType::kF8E5M2, "F8_E5M2", 8},
    Row{DType::kI8, "I8", 8},
    Row{DType::kI16, "I16", 16},
    Row{DType::kI32, "I32", 32},
    Row{DType::kI64, "I64", 64},
    Row{DType::kU8, "U8", 8},
    Row{DType::kU16, "U16", 16},
    Row{DType::kU32, "U32", 32},
    Row{DType::kU64, "U64", 64},
    Row{DType::kBool, "BOOL", 8},
    Row{DType::kC64, "C64", 64},
    Row{DType::kF8E8M0, "F8_E8M0", 8},
    Row{DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    Row{DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    Row{DType::kF6E2M3, "F6_E2M3", 6},
    Row{DType::kF6E3M2, "F6_E3M2", 6},
    Row{DType::kF4, "F4", 4},
};

const Row& RowOf(DType type) {
  return kRows[static_cast<std::size_t>(type)];
}

constexpr bool RowsInOrder() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].type) != i) return false;
  }
  return true;
}
static_assert(RowsInOrder());

}  // namespace

int BitsOf(DType type) {
  return RowOf(type).bits;
}
int SizeOf(DType type) {
  assert(RowOf(type).bits % 8 == 0);
  return RowOf(type).bits / 8;
}
std::string_view Name(DType type) {
  return RowOf(type).name;
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

bool IsPlainFloat(DType type) {
  return type == DType::kBF16 || type == DType::kF16 || type == DType::kF32;
}

}  // namespace kv8
