#include "tensor/dtype.h"

#include <array>

namespace kv8 {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bytes;
};

constexpr std::array kRows = {
    Row{DType::kBF16, "BF16", 2},      Row{DType::kF16, "F16", 2},
    Row{DType::kF32, "F32", 4},        Row{DType::kF64, "F64", 8},
    Row{DType::kF8E4M3, "F8_E4M3", 1}, Row{DType::kF8E5M2, "F8_E5M2", 1},
    Row{DType::kI8, "I8", 1},          Row{DType::kI16, "I16", 2},
    Row{DType::kI32, "I32", 4},        Row{DType::kI64, "I64", 8},
    Row{DType::kU8, "U8", 1},          Row{DType::kU16, "U16", 2},
    Row{DType::kU32, "U32", 4},        Row{DType::kU64, "U64", 8},
    Row{DType::kBool, "BOOL", 1},
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

int SizeOf(DType type) {
  return RowOf(type).bytes;
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
