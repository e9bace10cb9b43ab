#include "family/tensor_owner.h"

#include <algorithm>
#include <array>

namespace kv8 {
namespace {

struct Owner {
  std::string_view marker;  // part of a canonical tensor name
  std::string_view name;
};

/// The first row whose marker a name contains owns the tensor.
constexpr std::array kOwners = {
    Owner{"mtp.layers.0.mlp.experts.", "draft experts"},
    Owner{"mtp.", "draft head"},
    Owner{"embed_tokens", "embedding"},
    Owner{"lm_head", "output head"},
    Owner{".ngram_embedding.", "n-gram table"},
    Owner{".ple.", "n-gram memory"},
    Owner{".experts.", "routed experts"},
    Owner{".mlp.", "router and shared expert"},
    Owner{".linear_attn.", "linear attention"},
    Owner{".indexer.", "indexer"},
    Owner{".self_attn.", "full attention"},
    Owner{"hyper_connection", "hyper-connections"},
    Owner{"", "other"},
};

}  // namespace

std::string_view OwnerOf(std::string_view name) {
  return std::find_if(kOwners.begin(), kOwners.end(),
                      [name](const Owner& owner) { return name.find(owner.marker) != name.npos; })
      ->name;
}

}  // namespace kv8
