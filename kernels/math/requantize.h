// Requantization: value * multiplier / 2^shift with one rounding, half away from zero, computed on
// magnitudes in u64 only, so that C++, OpenCL C 1.2 and CUDA C agree bit for bit. multiplier is 0
// or lies in [2^30, 2^31). The result saturates at +-(2^31 - 1), beyond every code.
DEVICE_FN i64 requantize_magnitude(u64 a, u32 multiplier, i32 shift) {
  const u64 limit = 0x7fffffffu;
  u64 r;
  if (a == 0 || multiplier == 0) return 0;
  if (shift < 0) return (i64)limit;
  if ((a >> 32) == 0) {
    if (shift > 63) return 0;
    r = (a * multiplier + (shift == 0 ? (u64)0 : (u64)1 << (shift - 1))) >> shift;
  } else {
    if (shift <= 32) return (i64)limit;
    if (shift - 32 > 63) return 0;
    r = ((a >> 32) * multiplier + (((a & 0xffffffffu) * multiplier) >> 32) +
         ((u64)1 << (shift - 33))) >> (shift - 32);
  }
  return (i64)(r < limit ? r : limit);
}

DEVICE_FN i64 requantize_i64(i64 v, i32 multiplier, i32 shift) {
  const u64 a = v < 0 ? (u64)0 - (u64)v : (u64)v;
  const i64 r = requantize_magnitude(a, (u32)multiplier, shift);
  return v < 0 ? -r : r;
}

// The same with a factor of its own for v < 0, whose multiplier is negative where the factor is.
DEVICE_FN i64 requantize_slope(i64 v, i32 multiplier, i32 shift, i32 negative_multiplier,
                               i32 negative_shift) {
  const i32 m = v < 0 ? negative_multiplier : multiplier;
  const i64 r = requantize_i64(v, m < 0 ? -m : m, v < 0 ? negative_shift : shift);
  return m < 0 ? -r : r;
}

// The same for 32 bits, without branches, so that compilers vectorise it.
DEVICE_FN i32 requantize_i32(i32 v, i32 multiplier, i32 shift) {
  const u32 a = v < 0 ? 0u - (u32)v : (u32)v;
  const i32 n = shift < 0 ? 0 : shift > 63 ? 63 : shift;
  const u64 rounding = shift > 63 ? (u64)0 : ((u64)1 << n) >> 1;
  const u64 scaled = ((u64)a * (u32)multiplier + rounding) >> n;
  const u64 limit = 0x7fffffffu;
  // A negative shift saturates every product but 0; a shift of more than 63 leaves nothing.
  const u64 most = shift > 63 || (a == 0 || multiplier == 0) ? (u64)0 : limit;
  const u64 r = shift < 0 || scaled > most ? most : scaled;
  return v < 0 ? -(i32)r : (i32)r;
}
