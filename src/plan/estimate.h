// Tokens per second from bytes and operations: a bound by what a machine reads and multiplies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv8/types.h"
#include "plan/device_list.h"
#include "plan/module_bytes.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// One pass of the target.
struct PassShape {
  std::int64_t rows = 1;       // one per sequence in decode, a chunk of one sequence in prefill
  std::int64_t sequences = 1;  // whose states move
  std::int64_t context = 0;    // tokens before each row
  std::int64_t logit_rows = 1;
  KvDType dtype = KvDType::kFp16;
};

/// What a part of the pass does, over all layers.
struct PartWork {
  std::string part;
  double bytes = 0;  // read and written
  double macs = 0;   // multiply-adds
  double calls = 0;  // operations that the device starts
  double moved = 0;  // bytes of activations between them, read and written
};

struct PartTime {
  std::string part;
  double seconds = 0;
};

struct PassTime {
  double seconds = 0;
  std::vector<PartTime> parts;
};

/// `modules` are those of `spec`, which may be a rank's part.
std::vector<PartWork> WorkOf(const ModelSpec& spec, const std::vector<ModuleBytes>& modules,
                             const PassShape& pass);

/// Each part takes the longer of its bytes and its multiply-adds, the start of its calls, and the
/// moving of activations. A rate that is 0 takes no time.
PassTime TimeOf(const std::vector<PartWork>& work, const Rates& rates);

}  // namespace kv8
