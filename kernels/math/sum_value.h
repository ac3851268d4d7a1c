// The real value of a sum of products of codes in float: v multiplier / 2^shift, for a factor of
// math/requantize.h. Both are rounded to float before they are multiplied, so that all devices
// compute the same bits. Factors below 2^-126 count as 0, those from 2^97 on as infinite.
DEVICE_FN float sum_scale(i32 multiplier, i32 shift) {
  // 2^(31 - shift) by its bits.
  const i32 exponent = clamp_i32(127 + 31 - shift, 0, 255);
  return (float)multiplier * (1.0f / 2147483648.0f) * as_f32((u32)exponent << 23);
}
DEVICE_FN float sum_value(i64 v, i32 multiplier, i32 shift) {
  return (float)v * sum_scale(multiplier, shift);
}
