#include "family/matrix_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/checked.h"

namespace kv8 {
namespace {

/// One of the arrays that a weight consists of.
struct Plane {
  const std::byte* Weight::*data;
  std::int64_t (Weight::*row_bytes)() const;
  bool of_groups;  // a row of it stands for group_rows rows
};
constexpr Plane kPlanes[] = {{&Weight::codes, &Weight::code_row_bytes, false},
                             {&Weight::scales, &Weight::scale_row_bytes, true},
                             {&Weight::zero_points, &Weight::zero_point_row_bytes, true}};

Result<void> CheckColumns(const Weight& whole, const Range& columns, const std::string& name) {
  const std::int64_t bits = CodeBits(whole.format);
  const std::int64_t group = std::max(whole.group, 1);
  for (const std::int64_t edge : {columns.begin, columns.end()}) {
    if (edge == whole.cols || (edge * bits % 8 == 0 && edge % group == 0)) continue;
    return Error{Code::kUnsupported,
                 fmt::format("{} weights in groups of {} columns cannot be cut at column {}",
                             Name(whole.format), group, edge),
                 name, "choose a number of ranks that cuts between groups"};
  }
  return {};
}

Result<void> CheckRows(const Weight& whole, std::span<const Range> rows, const std::string& name) {
  for (const Range& range : rows) {
    for (const std::int64_t edge : {range.begin, range.end()}) {
      if (edge == whole.rows || (whole.scale_row + edge) % whole.group_rows == 0) continue;
      return Error{Code::kUnsupported,
                   fmt::format("{} weights in groups of {} rows cannot be cut at row {}",
                               Name(whole.format), whole.group_rows, edge),
                   name, "choose a number of ranks that cuts between groups"};
    }
  }
  return {};
}

/// Ranges that follow each other become one.
std::vector<Range> JoinedRows(const std::vector<Range>& rows) {
  std::vector<Range> joined;
  for (const Range& range : rows) {
    if (!joined.empty() && joined.back().end() == range.begin) {
      joined.back().count += range.count;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

Result<Weight> TakePart(const Weight& whole, const MatrixPart& part, const std::string& name,
                        std::vector<std::shared_ptr<const std::byte[]>>& copies) {
  const std::vector<Range> rows =
      part.rows.empty() ? std::vector{Range{0, whole.rows}} : JoinedRows(part.rows);
  const Range columns = part.columns.value_or(Range{0, whole.cols});
  if (rows.size() == 1 && columns.count == whole.cols) {
    return whole.Rows(rows.front().begin, rows.front().count);
  }
  KV8_RETURN_IF_ERROR(CheckColumns(whole, columns, name));
  KV8_RETURN_IF_ERROR(CheckRows(whole, rows, name));
  Weight out = whole, before = whole;
  before.cols = columns.begin;
  out.cols = columns.count;
  out.rows = out.scale_row = 0;
  for (const Range& range : rows) out.rows += range.count;
  for (const auto& [data, row_bytes, of_groups] : kPlanes) {
    if (whole.*data == nullptr) continue;
    const std::int64_t step = of_groups ? whole.group_rows : 1;
    const std::int64_t from = (whole.*row_bytes)(), to = (out.*row_bytes)();
    const std::int64_t offset = of_groups ? whole.scale_row : 0;
    const std::int64_t count = CeilDiv(out.rows, step);
    const std::shared_ptr<std::byte[]> copy(new std::byte[static_cast<std::size_t>(count * to)]);
    std::byte* next = copy.get();
    for (const Range& range : rows) {
      const std::int64_t end = CeilDiv(offset + range.end(), step);
      for (std::int64_t row = (offset + range.begin) / step; row < end; ++row, next += to) {
        std::memcpy(next, whole.*data + row * from + (before.*row_bytes)(),
                    static_cast<std::size_t>(to));
      }
    }
    out.*data = copies.emplace_back(copy).get();
  }
  return out;
}

}  // namespace kv8
