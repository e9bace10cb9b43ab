// Every tolerance of the op tests, with its reason.
#pragma once

namespace kv8::tolerance {

/// Outputs of attention over values of about 1: FP32 scores up to 30 carry an error of some 1e-6,
/// which the exponential makes relative, and the weighted sum averages.
inline constexpr float kAttention = 2e-5f;

/// GDN outputs and states of about 1: FP32 rounding of up to 67 steps of a contracting recurrence,
/// and of the norm that follows.
inline constexpr float kGdn = 5e-5f;

/// Index keys, stored as FP16: FP32 and double may round to neighbours, 2^-11 of up to 4.
inline constexpr float kIndexKey = 2e-3f;

}  // namespace kv8::tolerance
