// Codes from the sums of a channel: the sum and the channel's bias, requantized as math/requantize.h
// defines it, plus the zero point of y. A ChannelFactor has what is the same for all sums of a channel.
// Rounding and the zero point are one addend:
//   code = floor((v multiplier + (2 zero + 1) 2^(shift - 1)) / 2^shift),
// which is not bounded yet. For v < 0 this rounds halves up instead of away from zero. That matters only
// for codes above 0, hence not if the zero point is 0. Otherwise such a half needs a multiplier with
// many zeros at its end: v multiplier is an odd multiple of 2^(shift - 1), and below 2^(shift + 8)
// (2^(shift + 16) for 16 bits), so that v < 2^(shift - 22) (2^(shift - 14)) has too few factors of 2.
//
// plain_code is for channels without such halves, with shifts from 33 on, and for bounds that are those
// of codes; general_code for almost all others; special_code for any. Include it in device text only.
// Defines: CODE_BYTES, and LONG_SUMS (1: sums of 64 bits).
#include "math/requantize_fast.h"
#define MOST_CODE (CODE_BYTES == 1 ? 255 : 65535)
#define HALF_BITS (CODE_BYTES == 1 ? 0x3fffff : 0x3fff)
// A word of a factor: shift - 32 in 8 bits; the shift to the left of sums before, which makes the shift
// at least 33; whether plain_code is not for the channel. 0: neither is general_code.
#define WAY_OF(shift, left, general) ((shift) - 32 + ((left) << 8) + ((general) << 16))
#define IS_SPECIAL(way) ((way) == 0)
#define IS_GENERAL(way) ((way) >> 16 != 0)

// Whether halves are rounded up without a change of codes.
DEVICE_FN i32 rounds_up(i32 multiplier, i32 zero) {
  return zero == 0 || multiplier == 0 || (multiplier & HALF_BITS) != 0;
}

#if LONG_SUMS
#define Sum i64
typedef struct {
  int4 v;  // bias, low and high word; multiplier; way
  int4 w;  // the addend / 2^32, low and high word
} ChannelFactor;
#define WAY(f) ((f).v.w)
DEVICE_FN i64 i64_of(i32 low, i32 high) { return (i64)((u64)(u32)high << 32 | (u32)low); }
// `most`: no sum is larger, without the bias.
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most) {
  const i32 n = multiplier == 0 ? 33 : shift, left = n < 33 ? 33 - n : 0;
  const i32 sure = n >= 3 && n <= 77;
  const i64 bound = ((bias < 0 ? -bias : bias) + most) >> (sure && left == 0 ? n - 31 : 0);
  const i32 plain =
      left == 0 && rounds_up(multiplier, zero) && (multiplier == 0 || bound < (i64)1 << 31);
  const i64 addend = sure ? (i64)(2 * zero + 1) << (n + left - 33) : 0;
  ChannelFactor f;
  f.v = make_int4((i32)(u32)bias, (i32)(bias >> 32), multiplier,
                  sure ? WAY_OF(n + left, left, !plain) : 0);
  f.w = make_int4((i32)(u32)addend, (i32)(addend >> 32), 0, 0);
  return f;
}
DEVICE_FN i32 plain_code(i64 sum, ChannelFactor f) {
  const i64 v = sum + i64_of(f.v.x, f.v.y), addend = i64_of(f.w.x, f.w.y);
  const u32 low = (u32)((u64)(u32)v * (u32)f.v.z >> 32);
  return (i32)(((v >> 32) * f.v.z + addend + low) >> f.v.w);
}
// Between two codes.
DEVICE_FN i32 general_code(i64 sum, ChannelFactor f, i32 least, i32 most) {
  const i32 left = f.v.w >> 8 & 255;
  const i64 limit = (i64)1 << 61 >> left, s = sum + i64_of(f.v.x, f.v.y);
  const i64 v = (i64)((u64)(s < -limit ? -limit : s > limit ? limit : s) << left);
  const i64 low = (i64)((u64)(u32)v * (u32)f.v.z) + (v >> 63);
  const i64 r =
      ((v >> 32) * f.v.z + i64_of(f.w.x, f.w.y) + (low >> 32)) >> (f.v.w & 255);
  return (i32)(r < least ? least : r > most ? most : r);
}
#else
#define Sum i32
typedef int4 ChannelFactor;  // bias, multiplier, the addend / 2^32, way
#define WAY(f) ((f).w)
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most) {
  const i32 n = multiplier == 0 ? 33 : shift, left = n < 33 ? 33 - n : 0;
  const i32 sure = n >= 3 && n <= 54, plain = left == 0 && rounds_up(multiplier, zero);
  return make_int4((i32)(u32)bias, multiplier, sure ? (2 * zero + 1) << (n + left - 33) : 0,
                   sure ? WAY_OF(n + left, left, !plain) : 0);
}
DEVICE_FN i32 plain_code(i32 sum, ChannelFactor f) {
  const i32 v = (i32)((u32)sum + (u32)f.x);
  return multiply_high_add(v, f.y, f.z) >> f.w;
}
DEVICE_FN i32 general_code(i32 sum, ChannelFactor f, i32 least, i32 most) {
  const i32 left = f.w >> 8 & 255, limit = 0x7fffffff >> left;
  const i32 s = clamp_i32((i32)((u32)sum + (u32)f.x), -limit - 1, limit);
  const i32 v = (i32)((u32)s << left);
  const i64 r = (i64)v * f.y + (i64)((u64)(u32)f.z << 32) + (v >> 31);
  return clamp_i32((i32)(r >> 32) >> (f.w & 255), least, most);
}
#endif
// For channels that do not exist.
DEVICE_FN ChannelFactor no_factor(void) { return channel_factor(0, 0, 0, 0, 0); }

// The sum with its bias.
DEVICE_FN Sum with_bias(Sum sum, i64 bias) {
#if LONG_SUMS
  return sum + bias;
#else
  return (i32)((u32)sum + (u32)bias);
#endif
}
// v requantized by any factor, without zero point.
DEVICE_FN i64 special_code(Sum v, i32 multiplier, i32 shift) {
#if LONG_SUMS
  return requantize_wide_sum(v, multiplier, shift);
#else
  return requantize_sum(v, multiplier, shift);
#endif
}
// Codes in a word, bounded by 0 and MOST_CODE.
#define WORD_CODES (4 / CODE_BYTES)
DEVICE_FN u32 bounded_word(const i32* c) {
#if CODE_BYTES == 1
  return pack_bytes(c[0], c[1], c[2], c[3]);
#else
  return pack_shorts(c[0], c[1]);
#endif
}
#define CODE_AT(words, k) \
  ((i32)((words)[(k) / WORD_CODES] >> (k) % WORD_CODES * 8 * CODE_BYTES & MOST_CODE))
