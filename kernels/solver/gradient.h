//! types: float
//! tests: solver
//! runs: host
// sums[g] = the sum of diff^2 over runs g, g + groups, … of `unit` elements each, for processors;
// gradient_groups.h has the kernel of devices.
KERNEL(gradient_squares, ARG(i64, groups), ARG(i64, n), ARG(i64, unit), IN(Dtype, diff),
       OUT(f32, sums)) {
  FOR_EACH_GROUP(g, groups) {
    Acctype sum = 0;
    for (i64 begin = (i64)g * unit; begin < n; begin += groups * unit) {
      const i64 end = begin + unit < n ? begin + unit : n;
      SIMD_SUM(sum)
      for (i64 i = begin; i < end; ++i) {
        const Acctype d = LOAD(Dtype, diff, i);
        sum += d * d;
      }
    }
    STORE(f32, sums, g, (float)sum);
  }
}
