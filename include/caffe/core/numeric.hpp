#pragma once

#include <bit>
#include <cstdint>

// The element types of blobs as C++ types. Quantized codes have types of their own, so that another
// byte cannot be mistaken for a code. Conversions round to nearest even, keep infinities and turn
// every NaN into a quiet one.
namespace caffe {

// IEEE 754 binary32 to binary16 bits and back.
constexpr uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >
      0x7f800000u) {  // quiet; the payload is kept as far as it fits, as F16C and PTX do
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 shifts and rounds in one step
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

constexpr float HalfBitsToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

constexpr uint16_t FloatToBfloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float Bfloat16BitsToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

struct half {
  uint16_t bits = 0;
  constexpr half() = default;
  constexpr half(float value) : bits(FloatToHalfBits(value)) {}
  constexpr operator float() const { return HalfBitsToFloat(bits); }
};

struct bfloat16 {
  uint16_t bits = 0;
  constexpr bfloat16() = default;
  constexpr bfloat16(float value) : bits(FloatToBfloat16Bits(value)) {}
  constexpr operator float() const { return Bfloat16BitsToFloat(bits); }
};

// Codes of affine quantization: real = scale * (code - zero point).
struct quant8 {
  uint8_t code = 0;
};

struct quant16 {
  uint16_t code = 0;
};

}  // namespace caffe
