#include "support/quantised_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numeric/half.h"

namespace kv8::test {
namespace {

constexpr std::array<float, 8> kE2M1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/// E4M3 by its definition.
float E4m3Value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return static_cast<float>((code & 0x80) != 0 ? -size : size);
}

/// The code nearest to `value` among the finite ones.
int NearestE4m3(float value) {
  static const std::array<float, 127> sizes = [] {
    std::array<float, 127> all{};
    for (int code = 0; code < 127; ++code) all[static_cast<std::size_t>(code)] = E4m3Value(code);
    return all;
  }();
  const float size = std::abs(value);
  const auto above = std::lower_bound(sizes.begin(), sizes.end() - 1, size);
  const bool lower = above != sizes.begin() && size - *(above - 1) < *above - size;
  return static_cast<int>(above - sizes.begin()) - (lower ? 1 : 0) + (value < 0 ? 0x80 : 0);
}

int NearestE2m1(float value) {
  int best = 0;
  for (int code = 0; code < 8; ++code) {
    if (std::abs(kE2M1[code] - std::abs(value)) < std::abs(kE2M1[best] - std::abs(value))) {
      best = code;
    }
  }
  return best | (value < 0 ? 8 : 0);
}

float E2m1Value(int code) {
  return (code & 8) != 0 ? -kE2M1[code & 7] : kE2M1[code & 7];
}

/// Numbers of 16 or 32 bits that are rounded when they are stored.
class Scales {
 public:
  explicit Scales(DType dtype) : dtype_(dtype) {}
  /// As it will be read.
  float Add(float value) {
    if (dtype_ == DType::kF32) {
      wide_.push_back(value);
      return value;
    }
    const bool bf16 = dtype_ == DType::kBF16;
    half_.push_back(bf16 ? EncodeBf16(value) : EncodeFp16(value));
    return bf16 ? DecodeBf16(half_.back()) : DecodeFp16(half_.back());
  }
  OwnedTensor Tensor(std::vector<std::int64_t> shape) const {
    return dtype_ == DType::kF32 ? MakeTensor(dtype_, std::move(shape), wide_)
                                 : MakeTensor(dtype_, std::move(shape), half_);
  }

 private:
  DType dtype_;
  std::vector<float> wide_;
  std::vector<std::uint16_t> half_;
};

struct Input {
  std::span<const float> values;
  std::int64_t rows, cols;

  float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  /// Largest magnitude of a block.
  float Peak(std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) const {
    float peak = 0;
    for (std::int64_t r = r0; r < std::min(r1, rows); ++r) {
      for (std::int64_t c = c0; c < std::min(c1, cols); ++c)
        peak = std::max(peak, std::abs(at(r, c)));
    }
    return peak;
  }
};

QuantisedMatrix Fp8(const LayoutOptions& options, const Input& in) {
  const bool blocks = options.layout == Layout::kFp8Blocks;
  const std::int64_t side = blocks ? 128 : std::max(in.rows, in.cols);
  const std::int64_t down = (in.rows + side - 1) / side, across = (in.cols + side - 1) / side;
  Scales scales(options.scale_dtype);
  std::vector<float> read;
  for (std::int64_t i = 0; i < down * across; ++i) {
    const std::int64_t r = i / across * side, c = i % across * side;
    read.push_back(scales.Add(std::max(in.Peak(r, r + side, c, c + side) / 448, 1e-6f)));
  }
  QuantisedMatrix out;
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < in.rows * in.cols; ++i) {
    const float scale =
        read[static_cast<std::size_t>(i / in.cols / side * across + i % in.cols / side)];
    codes.push_back(
        static_cast<std::uint8_t>(NearestE4m3(in.values[static_cast<std::size_t>(i)] / scale)));
    out.values.push_back(E4m3Value(codes.back()) * scale);
  }
  out.tensors["weight"] = MakeTensor(DType::kF8E4M3, {in.rows, in.cols}, codes);
  if (blocks) {
    out.tensors["weight_scale_inv"] = scales.Tensor({down, across});
  } else {
    out.tensors["weight_scale"] = scales.Tensor({1});
  }
  return out;
}

QuantisedMatrix Nvfp4(const LayoutOptions& options, const Input& in) {
  const bool divides = options.layout == Layout::kCompressedNvfp4;
  const float wanted = std::max(in.Peak(0, in.rows, 0, in.cols) / (448 * 6), 1e-9f);
  const float stored = divides ? 1 / wanted : wanted;
  const float global = divides ? 1 / stored : stored;
  QuantisedMatrix out;
  std::vector<std::uint8_t> codes, scales;
  for (std::int64_t r = 0; r < in.rows; ++r) {
    for (std::int64_t c = 0; c < in.cols; ++c) {
      if (c % 16 == 0) {
        scales.push_back(
            static_cast<std::uint8_t>(NearestE4m3(in.Peak(r, r + 1, c, c + 16) / 6 / global)));
      }
      const float scale = E4m3Value(scales.back());
      const int code = scale == 0 ? 0 : NearestE2m1(in.at(r, c) / (scale * global));
      if (c % 2 == 0) codes.push_back(0);
      codes.back() = static_cast<std::uint8_t>(codes.back() | code << (c % 2 * 4));
      out.values.push_back(E2m1Value(code) * scale * global);
    }
  }
  out.tensors[divides ? "weight_packed" : "weight"] =
      MakeTensor(DType::kU8, {in.rows, in.cols / 2}, codes);
  out.tensors["weight_scale"] = MakeTensor(DType::kF8E4M3, {in.rows, in.cols / 16}, scales);
  if (divides) {
    out.tensors["weight_global_scale"] = MakeTensor<float>(DType::kF32, {1}, {stored});
  } else {
    out.tensors["weight_scale_2"] = MakeTensor<float>(DType::kF32, {}, {stored});
    out.tensors["input_scale"] = MakeTensor<float>(DType::kF32, {}, {0.01f});
  }
  return out;
}

/// Codes and zero points, one number each, before a layout packs them.
struct Int4 {
  std::vector<int> codes;   // [rows,cols]
  std::vector<int> zeros;   // [rows,groups]
  std::vector<float> wide;  // scales [rows,groups], as they will be read
  std::vector<float> values;
};

Int4 QuantiseInt4(const LayoutOptions& options, const Input& in, bool zero_points) {
  Int4 out;
  const std::int64_t group = options.group;
  Scales rounding(options.scale_dtype);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    for (std::int64_t c = 0; c < in.cols; ++c) {
      if (c % group == 0) {
        float low = 0, high = 0;
        for (std::int64_t i = c; i < c + group; ++i) {
          low = std::min(low, in.at(r, i));
          high = std::max(high, in.at(r, i));
        }
        const float span = zero_points ? (high - low) / 15 : std::max(high, -low) / 7;
        out.wide.push_back(rounding.Add(std::max(span, 1e-6f)));
        // No zero point of 0: GPTQ's older files cannot say it.
        const int zero = zero_points ? static_cast<int>(std::lround(-low / out.wide.back())) : 8;
        out.zeros.push_back(std::clamp(zero, 1, 15));
      }
      const float scale = out.wide.back();
      const int code =
          std::clamp(static_cast<int>(std::lround(in.at(r, c) / scale)) + out.zeros.back(), 0, 15);
      out.codes.push_back(code);
      out.values.push_back(static_cast<float>(code - out.zeros.back()) * scale);
    }
  }
  return out;
}

/// Words of 8 fields: field `f` of word [i,j] of [rows,cols] is at(i, j, f).
OwnedTensor Packed(std::int64_t rows, std::int64_t cols, const auto& at) {
  std::vector<std::uint32_t> words;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::uint32_t word = 0;
    for (int field = 0; field < 8; ++field) {
      word |= static_cast<std::uint32_t>(at(i / cols, i % cols, field)) << (4 * field);
    }
    words.push_back(word);
  }
  return MakeTensor(DType::kI32, {rows, cols}, words);
}

QuantisedMatrix CompressedInt4(const LayoutOptions& options, const Input& in) {
  const Int4 int4 = QuantiseInt4(options, in, options.zero_points);
  const std::int64_t groups = in.cols / options.group;
  QuantisedMatrix out{.tensors = {}, .values = int4.values};
  out.tensors["weight_packed"] = Packed(in.rows, in.cols / 8, [&](auto r, auto word, int field) {
    return int4.codes[static_cast<std::size_t>(r * in.cols + word * 8 + field)];
  });
  Scales scales(options.scale_dtype);
  for (const float scale : int4.wide) scales.Add(scale);
  out.tensors["weight_scale"] = scales.Tensor({in.rows, groups});
  out.tensors["weight_shape"] = MakeTensor<std::int64_t>(DType::kI64, {2}, {in.rows, in.cols});
  if (!options.zero_points) return out;
  const auto zero = [&](auto word, auto g, int field) {
    const std::int64_t row = word * 8 + field;
    return row < in.rows ? int4.zeros[static_cast<std::size_t>(row * groups + g)] : 0;
  };
  out.tensors["weight_zero_point"] = Packed((in.rows + 7) / 8, groups, zero);
  return out;
}

/// GPTQ's and AutoAWQ's containers: inputs as rows.
QuantisedMatrix Container(const LayoutOptions& options, const Input& in) {
  constexpr std::array kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};
  const Int4 int4 = QuantiseInt4(options, in, true);
  const bool awq = options.layout == Layout::kAwq;
  const int less = options.layout == Layout::kGptq ? 1 : 0;
  const std::int64_t groups = in.cols / options.group;
  const auto output = [&](std::int64_t word, int field) {
    return word * 8 + (awq ? kAwqOrder[static_cast<std::size_t>(field)] : field);
  };
  QuantisedMatrix out{.tensors = {}, .values = int4.values};
  const auto code = [&](std::int64_t row, std::int64_t col) {
    return int4.codes[static_cast<std::size_t>(row * in.cols + col)];
  };
  out.tensors["qweight"] =
      awq ? Packed(in.cols, in.rows / 8,
                   [&](auto c, auto word, int field) { return code(output(word, field), c); })
          : Packed(in.cols / 8, in.rows,
                   [&](auto word, auto row, int field) { return code(row, word * 8 + field); });
  out.tensors["qzeros"] = Packed(groups, in.rows / 8, [&](auto g, auto word, int field) {
    return int4.zeros[static_cast<std::size_t>(output(word, field) * groups + g)] - less;
  });
  Scales scales(options.scale_dtype);
  for (std::int64_t i = 0; i < groups * in.rows; ++i) {
    scales.Add(int4.wide[static_cast<std::size_t>(i % in.rows * groups + i / in.rows)]);
  }
  out.tensors["scales"] = scales.Tensor({groups, in.rows});
  return out;
}

}  // namespace

QuantisedMatrix Quantise(const LayoutOptions& options, std::span<const float> values,
                         std::int64_t rows, std::int64_t cols) {
  const Input in{values, rows, cols};
  switch (options.layout) {
    case Layout::kFp8Blocks:
    case Layout::kFp8OneScale:
      return Fp8(options, in);
    case Layout::kModelOptNvfp4:
    case Layout::kCompressedNvfp4:
      return Nvfp4(options, in);
    case Layout::kCompressedInt4:
      return CompressedInt4(options, in);
    default:
      return Container(options, in);
  }
}

SafetensorsContent ViewsOf(const OwnedTensors& tensors) {
  SafetensorsContent content;
  for (const auto& [name, tensor] : tensors) content.tensors.emplace(name, tensor.view());
  return content;
}

}  // namespace kv8::test
