// A sum of codes times integer factors, divided by 2^shift (at most 62) with one rounding, half
// away from zero, between two bounds; `high` is beyond all codes. With a shift below 0 every sum
// but 0 is beyond a bound. The magnitude of a sum is below 2^62.
DEVICE_FN i32 code_of_sum(i64 sum, i32 shift, i32 low) {
  const i64 high = 1 << 20;
  const u64 a = sum < 0 ? (u64)0 - (u64)sum : (u64)sum;
  const i64 m = shift < 0 ? (a == 0 ? 0 : high) : (i64)((a + ((u64)1 << shift >> 1)) >> shift);
  const i64 r = sum < 0 ? -m : m;
  return (i32)(r < low ? low : r > high ? high : r);
}

DEVICE_FN i32 affine_code(i64 v, i32 multiplier, i64 addend, i32 shift, i32 low) {
  return code_of_sum(v * multiplier + addend, shift, low);
}
