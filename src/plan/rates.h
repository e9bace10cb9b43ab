// How fast a machine is.
#pragma once

#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// What a machine does in a second; 0: not known.
struct Rates {
  double read = 0;      // bytes that a product of one row reads
  double copy = 0;      // bytes copied
  double matrix = 0;    // multiply-adds of products of many rows
  double dispatch = 0;  // seconds of the smallest operation
};

/// "read=900G,matrix=60T": any of read, copy and matrix per second (ParseRate), and dispatch in
/// seconds, such as dispatch=0.000002. Errors: kInvalidArgument, with the names that exist.
Result<Rates> ParseRates(std::string_view text);

}  // namespace kv8
