// Every tolerance of the op tests, with its reason.
#pragma once

namespace kv8::tolerance {

/// One FP32 operation on values of about 1.
inline constexpr float kRounding = 2e-7f;

/// Dot products near 1 of up to 192 terms, each product and partial sum rounded to FP32.
inline constexpr float kLinear = 5e-6f;

/// The same on matrix units, for up to 2560 terms: they cut, not round, to FP32 after every 16
/// products, 160 times 2^-23 of partial sums of up to 2.
inline constexpr float kMatrixUnits = 4e-5f;

/// A sum of squares, a root and two products in FP32.
inline constexpr float kNorm = 2e-6f;

/// A norm, two products and a sigmoid; the streams' mean is near 1.
inline constexpr float kHyperMix = 1e-5f;

/// Two products with an activation between, for each of up to 10 experts of inputs near 2.
inline constexpr float kMoe = 3e-5f;

/// Like kHyperMix, but the gate's root magnifies errors of dot products near 0.
inline constexpr float kPle = 5e-5f;

/// Outputs of attention over values of about 1: FP32 scores up to 30 carry an error of some 1e-6,
/// which the exponential makes relative, and the weighted sum averages.
inline constexpr float kAttention = 2e-5f;

/// GDN outputs and states of about 1: FP32 rounding of up to 67 steps of a contracting recurrence,
/// and of the norm that follows.
inline constexpr float kGdn = 5e-5f;

/// Index keys, stored as FP16: FP32 and double may round to neighbours, 2^-11 of up to 4.
inline constexpr float kIndexKey = 2e-3f;

/// Attention on matrix units: queries and softmax weights rounded to FP16. A query's error of up to
/// 2^-11 reaches scores of up to 10, and the exponential makes it relative; sums average it.
inline constexpr float kHalfAttention = 4e-3f;

/// A norm and a rotation on the device, whose sine, cosine and root err by two units in the last
/// place.
inline constexpr float kDeviceNorm = 4e-6f;

}  // namespace kv8::tolerance
