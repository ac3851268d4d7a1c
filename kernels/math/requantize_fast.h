// requantize_i32 and requantize_i64 with fewer instructions for the usual shifts: those of factors
// below 1/2 and below 1/4. Include it in device text only.
DEVICE_FN i32 requantize_sum(i32 v, i32 multiplier, i32 shift) {
  if (shift >= 32 && shift <= 63) {
    const u32 a = v < 0 ? 0u - (u32)v : (u32)v;
    const u64 scaled = (u64)a * (u32)multiplier + ((u64)1 << (shift - 1));
    // Below 2^31: the magnitude has 32 bits, the multiplier 31.
    const i32 r = (i32)((u32)(scaled >> 32) >> (shift - 32));
    return v < 0 ? -r : r;
  }
  return requantize_i32(v, multiplier, shift);
}

// Both formulas of requantize_magnitude agree from a shift of 33 on.
DEVICE_FN i64 requantize_wide_sum(i64 v, i32 multiplier, i32 shift) {
  if (shift >= 33 && shift <= 95) {
    const u64 a = v < 0 ? (u64)0 - (u64)v : (u64)v, limit = 0x7fffffffu;
    const u64 scaled = ((a >> 32) * (u32)multiplier +
                        (((a & 0xffffffffu) * (u32)multiplier) >> 32) +
                        ((u64)1 << (shift - 33))) >> (shift - 32);
    const i64 r = (i64)(scaled < limit ? scaled : limit);
    return v < 0 ? -r : r;
  }
  return requantize_i64(v, multiplier, shift);
}
