//! types: device
//! tests: solver
// Sums of diff^2 in work groups of GROUP items; sums has one for each of `groups` groups. An item
// loads four elements at a time, GROUP apart. The order of the sums is fixed.
KERNEL(gradient_squares_groups, ARG(i64, groups), ARG(i64, n), IN(Dtype, diff), OUT(f32, sums)) {
  LOCAL Acctype parts[GROUP];
  const i32 t = LOCAL_ID(0);
  Acctype sum = 0;
  for (i64 begin = (i64)GROUP_ID(0) * (4 * GROUP) + t; begin < n; begin += groups * 4 * GROUP) {
    Acctype v[4];
    UNROLL for (i32 k = 0; k < 4; ++k) {
      v[k] = begin + GROUP * k < n ? LOAD(Dtype, diff, begin + GROUP * k) : (Acctype)0;
    }
    UNROLL for (i32 k = 0; k < 4; ++k) sum += v[k] * v[k];
  }
  parts[t] = sum;
  BARRIER;
  for (i32 width = GROUP / 2; width > 0; width >>= 1) {
    if (t < width) parts[t] += parts[t + width];
    BARRIER;
  }
  if (t == 0) STORE(f32, sums, GROUP_ID(0), (float)parts[0]);
}
