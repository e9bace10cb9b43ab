// Dimensions of the released model.
#pragma once

namespace kv8::bench {

inline constexpr int kHidden = 2560, kVocab = 248'320;
inline constexpr int kStreams = 4, kWidth = kStreams * kHidden, kLowRank = 320;
inline constexpr int kQueryHeads = 24, kKvHeads = 2, kHeadDim = 256, kRotaryDim = 64;
inline constexpr int kIndexHeads = 4, kIndexDim = 128, kBudget = 512;
inline constexpr int kKeyHeads = 16, kValueHeads = 48, kGdnDim = 128;
inline constexpr int kGdnChannels = (2 * kKeyHeads + kValueHeads) * kGdnDim;
inline constexpr int kGdnState = kValueHeads * kGdnDim * kGdnDim;
inline constexpr int kExperts = 512, kChosen = 10, kExpertWidth = 640;

}  // namespace kv8::bench
