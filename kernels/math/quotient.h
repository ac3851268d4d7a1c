// n / d for n in [0, 2^31), with the multiplier and the shift of d (Quotient in
// src/caffe/library/rounding.hpp).
DEVICE_FN i32 quotient(i32 n, i64 multiplier, i32 shift) {
  return (i32)((u64)(u32)n * (u32)multiplier >> shift);
}
