// The rows and columns of a matrix that one rank holds.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "family/shard.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

struct MatrixPart {
  std::vector<Range> rows;       // one after another; empty: all
  std::optional<Range> columns;  // of each of these rows; nullopt: all
};

/// The part where it lies, if it is a run of whole rows; else a copy of it, kept in `copies`. Of a
/// weight without memory, its size.
/// Errors: kUnsupported, at `name`, when the columns cut a byte or a group that shares a scale.
Result<Weight> TakePart(const Weight& whole, const MatrixPart& part, const std::string& name,
                        std::vector<std::shared_ptr<const std::byte[]>>& copies);

}  // namespace kv8
