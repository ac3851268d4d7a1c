// Codes from the sums of a channel: the sum and the channel's bias, requantized as
// math/requantize.h defines it, plus the zero point of y. A ChannelFactor has what is the same for
// all sums of a channel. Rounding and the zero point are one addend:
//   code = floor((v multiplier + (2 zero + 1) 2^(shift - 1)) / 2^shift),
// which is not bounded yet. For v < 0 this rounds halves up instead of away from zero. That matters
// only if codes below the zero point remain. Otherwise such a half needs a multiplier with many
// zeros at its end: v multiplier is an odd multiple of 2^(shift - 1), and below 2^(shift + 8)
// (2^(shift + 16) for 16 bits), so that v < 2^(shift - 22) (2^(shift - 14)) has too few factors of
// 2.
//
// plain_code is for channels without such halves whose numbers have few bits, as those of real
// nets; general_code for almost all others; special_code for any. Include it in device text only.
// Defines: CODE_BYTES, and LONG_SUMS (1: sums of 64 bits).
#include "math/requantize_fast.h"
#define MOST_CODE (CODE_BYTES == 1 ? 255 : 65535)
#define HALF_BITS (CODE_BYTES == 1 ? 0x3fffff : 0x3fff)
// The facts that general_code needs: shift - 32 in 8 bits; the shift to the left of sums before,
// which makes the shift at least 33; whether plain_code is not for the channel. 0: neither is
// general_code.
#define WAY_OF(shift, left, general) ((shift) - 32 + ((left) << 8) + ((general) << 16))
#define IS_SPECIAL(f) ((f).w.z == 0)
#define IS_GENERAL(f) ((f).w.z >> 16 != 0)
typedef struct {
  int4 v, w;  // w.z: way; see the functions
} ChannelFactor;
DEVICE_FN i64 i64_of(i32 low, i32 high) { return (i64)((u64)(u32)high << 32 | (u32)low); }

// clamp_i32 for low <= high.
DEVICE_FN i32 between(i32 v, i32 low, i32 high) {
  const i32 w = v < high ? v : high;
  return w > low ? w : low;
}
// `most`: no sum is larger, without the bias. `positive`: no code below the zero point remains.
#if LONG_SUMS
#define Sum i64
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most,
                                       i32 positive) {
  const i32 n = multiplier == 0 ? 33 : shift, left = n < 33 ? 33 - n : 0;
  const i32 sure = n >= 3 && n <= 77, whole = sure && left == 0;
  const i64 bound = ((bias < 0 ? -bias : bias) + most) >> (whole ? n - 31 : 0);
  const i32 plain = multiplier == 0 || (whole && bound < (i64)1 << 31 &&
                                        (positive || (multiplier & HALF_BITS) != 0));
  const i64 addend = sure ? (i64)(2 * zero + 1) << (n + left - 33) : 0;
  ChannelFactor f;
  f.v = make_int4((i32)(u32)bias, (i32)(bias >> 32), multiplier, n - 32);
  f.w = make_int4((i32)(u32)addend, (i32)(addend >> 32),
                  sure ? WAY_OF(n + left, left, !plain) : 0, 0);
  return f;
}
DEVICE_FN i32 plain_code(i64 sum, ChannelFactor f) {
  const i64 v = sum + i64_of(f.v.x, f.v.y), addend = i64_of(f.w.x, f.w.y);
  const u32 low = (u32)((u64)(u32)v * (u32)f.v.z >> 32);
  return (i32)(((v >> 32) * f.v.z + addend + low) >> f.v.w);
}
DEVICE_FN i32 general_code(i64 sum, ChannelFactor f, i32 least, i32 most) {
  const i32 left = f.w.z >> 8 & 255;
  const i64 limit = (i64)1 << 61 >> left, s = sum + i64_of(f.v.x, f.v.y);
  const i64 v = (i64)((u64)(s < -limit ? -limit : s > limit ? limit : s) << left);
  const i64 low = (i64)((u64)(u32)v * (u32)f.v.z) + (v >> 63);
  const i64 r = ((v >> 32) * f.v.z + i64_of(f.w.x, f.w.y) + (low >> 32)) >> (f.w.z & 255);
  return (i32)(r < least ? least : r > most ? most : r);
}
#else
#define Sum i32
DEVICE_FN ChannelFactor channel_factor(i64 bias, i32 multiplier, i32 shift, i32 zero, i64 most,
                                       i32 positive) {
  const i32 n = multiplier == 0 ? 33 : shift, left = n < 33 ? 33 - n : 0;
  const i32 sure = n >= 3 && n <= 53;
  const i64 bound = (bias < 0 ? -bias : bias) + most;
  // Sums do not wrap, and codes have 31 bits before they are bounded.
  const i32 plain = multiplier == 0 ||
                    (sure && bound < (i64)1 << (n < 32 ? n - 1 : 31) &&
                     (positive || (multiplier & HALF_BITS) != 0));
  // With the bias, which plain_code does not add by itself.
  const i64 addend =
      plain ? (i64)(i32)bias * multiplier + ((i64)(2 * zero + 1) << (n - 1)) : 0;
  ChannelFactor f;
  f.v = make_int4(multiplier, n, (i32)(u32)addend, (i32)(addend >> 32));
  f.w = make_int4((i32)(u32)bias, sure ? (2 * zero + 1) << (n + left - 33) : 0,
                  sure ? WAY_OF(n + left, left, !plain) : 0, 0);
  return f;
}
DEVICE_FN i32 plain_code(i32 sum, ChannelFactor f) {
  return (i32)(((i64)sum * f.v.x + i64_of(f.v.z, f.v.w)) >> f.v.y);
}
// Between two codes.
DEVICE_FN i32 general_code(i32 sum, ChannelFactor f, i32 least, i32 most) {
  const i32 left = f.w.z >> 8 & 255, limit = 0x7fffffff >> left;
  const i32 s = between((i32)((u32)sum + (u32)f.w.x), -limit - 1, limit);
  const i32 v = (i32)((u32)s << left);
  const i64 r = (i64)v * f.v.x + (i64)((u64)(u32)f.w.y << 32) + (v >> 31);
  return between((i32)(r >> 32) >> (f.w.z & 255), least, most);
}
#endif
// For channels that do not exist.
DEVICE_FN ChannelFactor no_factor(void) { return channel_factor(0, 0, 0, 0, 0, 1); }

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
