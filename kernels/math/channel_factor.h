// Codes from the sums of a channel: the sum and the channel's bias, requantized, plus the zero point of
// y. A ChannelFactor has what is the same for all sums of a channel. With the definition of
// math/requantize.h, and zero and half in one addend,
//   code = floor((v multiplier + (2 zero + 1) 2^(shift - 1)) / 2^shift),
// which is not bounded yet. For v < 0 this rounds halves up instead of away from zero. Within codes
// there is a half only if the multiplier ends with many zeros: v multiplier is an odd multiple of
// 2^(shift - 1), and below 2^(shift + 8) (2^(shift + 16) for 16 bits), so that v < 2^(shift - 22)
// (2^(shift - 14)) has too few factors of 2. Such multipliers, and rare shifts, are special: their
// channels take the way of every other device. Include it in device text only.
// Defines: CODE_BYTES, and LONG_SUMS (1: sums of 64 bits).
#include "math/requantize_fast.h"
#define MOST_CODE (CODE_BYTES == 1 ? 255 : 65535)
#define HALF_BITS (CODE_BYTES == 1 ? 0x3fffff : 0x3fff)

#if LONG_SUMS
#define Sum i64
typedef struct {
  int4 v;  // bias, low and high word; multiplier; shift - 32, or 0 if special
  int4 w;  // the addend, low and high word
} ChannelFactor;
DEVICE_FN ChannelFactor channel_factor_of(i64 bias, i32 multiplier, i32 shift, i64 addend) {
  ChannelFactor f;
  f.v = make_int4((i32)(u32)bias, (i32)(bias >> 32), multiplier, shift);
  f.w = make_int4((i32)(u32)addend, (i32)(addend >> 32), 0, 0);
  return f;
}
#define IS_SPECIAL(f) ((f).v.w == 0)
// `most`: no sum is larger, without the bias.
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most) {
  const i64 magnitude = (bias < 0 ? -bias : bias) + most;
  const i32 n = multiplier == 0 ? 33 : shift;
  const i32 plain = n >= 33 && n <= 77 && (multiplier == 0 || (multiplier & HALF_BITS) != 0) &&
                    (multiplier == 0 || magnitude >> (n - 31 < 63 ? n - 31 : 63) < (i64)1 << 31);
  return channel_factor_of(bias, multiplier, plain ? n - 32 : 0,
                           plain ? (i64)(2 * zero + 1) << (n - 33) : 0);
}
DEVICE_FN i32 plain_code(i64 sum, ChannelFactor f) {
  const i64 v = sum + (i64)((u64)(u32)f.v.y << 32 | (u32)f.v.x);
  const i64 addend = (i64)((u64)(u32)f.w.y << 32 | (u32)f.w.x);
  const u32 low = (u32)((u64)(u32)v * (u32)f.v.z >> 32);
  return (i32)(((v >> 32) * f.v.z + addend + low) >> f.v.w);
}
#else
#define Sum i32
typedef int4 ChannelFactor;  // bias, multiplier, addend / 2^32, shift - 32 or 0 if special
#define IS_SPECIAL(f) ((f).w == 0)
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most) {
  const i32 n = multiplier == 0 ? 33 : shift;
  const i32 plain = n >= 33 && n <= 54 && (multiplier == 0 || (multiplier & HALF_BITS) != 0);
  return make_int4((i32)(u32)bias, multiplier, plain ? (2 * zero + 1) << (n - 33) : 0,
                   plain ? n - 32 : 0);
}
DEVICE_FN i32 plain_code(i32 sum, ChannelFactor f) {
  const i32 v = (i32)((u32)sum + (u32)f.x);
  return multiply_high_add(v, f.y, f.z) >> f.w;
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
