// How far two distributions over the next token lie apart, from their likeliest tokens.
#pragma once

#include <vector>

#include "kv8/request.h"

namespace kv8 {

/// KL(A || B) in nats, over the tokens that both lists hold and one bin of all others: a lower
/// bound of the divergence over all tokens. Finite and at least 0 where both are distributions.
double KlLowerBound(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b);

}  // namespace kv8
