// Sums of codes times integer factors, divided by 2^shift (0 to 62) with one rounding, half away from
// zero. The magnitude of a sum is below 2^62.
DEVICE_FN i64 round_code_sum(i64 sum, i32 shift) {
  const u64 a = sum < 0 ? (u64)0 - (u64)sum : (u64)sum;
  const i64 r = (i64)((a + ((u64)1 << shift >> 1)) >> shift);
  return sum < 0 ? -r : r;
}

// The same between two bounds. `high` is beyond all codes.
DEVICE_FN i32 code_of_sum(i64 sum, i32 shift, i32 low) {
  const i64 r = round_code_sum(sum, shift), high = 1 << 20;
  return (i32)(r < low ? low : r > high ? high : r);
}

DEVICE_FN i32 affine_code(i64 v, i32 multiplier, i64 addend, i32 shift, i32 low) {
  return code_of_sum(v * multiplier + addend, shift, low);
}
