#include "plan/memory_json.h"

namespace kv8 {

Json MemoryJson(const MemoryPlan& memory) {
  return {{"pages", memory.pages},
          {"kv", memory.kv},
          {"index", memory.index},
          {"draft_kv", memory.draft_kv},
          {"draft_index", memory.draft_index},
          {"states", memory.states},
          {"rollback", memory.rollback},
          {"activations", memory.activations},
          {"scratch", memory.scratch},
          {"weights", memory.weights},
          {"tables", memory.tables},
          {"snapshots", memory.snapshots},
          {"preempted", memory.preempted},
          {"kv_host", memory.kv_host},
          {"total", memory.total()}};
}

}  // namespace kv8
