//! types: device
//! tests: library
// Sums y_diff [outer, channels, inner] over outer and inner in work groups of GROUP. `slices`
// groups share a channel. With one slice b_diff += the sum; with several each writes its part to
// b_diff [slices, channels], for accumulate_parts. The order of the sum is fixed.
KERNEL(bias_backward_groups, ARG(i32, channels), ARG(i32, outer), ARG(i32, inner),
       ARG(i32, slices), IN(MItype, y_diff), OUT(MOtype, b_diff)) {
  LOCAL Acctype parts[GROUP];
  const i32 t = LOCAL_ID(0), c = (i32)GROUP_ID(0), slice = (i32)GROUP_ID(1);
  const i32 total = outer * inner, step = slices * GROUP, image = channels * inner;
  // Element j is element p of image o. Divisions take long, so o and p are moved along with j.
  const i32 step_o = step / inner, step_p = step - step_o * inner;
  i32 j = slice * GROUP + t, o = j / inner, p = j - o * inner;
  Acctype sum = 0;
  while (j < total) {
    // All loads of a round are made before one is waited for.
    Acctype v[4];
    UNROLL for (i32 k = 0; k < 4; ++k) {
      v[k] = j < total ? LOAD(MItype, y_diff, (i64)o * image + c * inner + p) : (Acctype)0;
      j += step;
      o += step_o;
      p += step_p;
      o += p >= inner;
      p -= p >= inner ? inner : 0;
    }
    UNROLL for (i32 k = 0; k < 4; ++k) sum += v[k];
  }
  parts[t] = sum;
  BARRIER;
  for (i32 width = GROUP / 2; width > 0; width >>= 1) {
    if (t < width) parts[t] += parts[t + width];
    BARRIER;
  }
  if (t == 0) {
    const Acctype before = slices == 1 ? LOAD(MOtype, b_diff, c) : 0;
    STORE(MOtype, b_diff, slice * channels + c, before + parts[0]);
  }
}

// The same for inner = 1, where neighbouring channels are adjacent in memory. A group has 32
// channels and at least 32 items, and GROUP / 32 items share the rows of a channel. Each of the
// `slices` groups writes its part to b_diff [slices, channels], for accumulate_parts.
KERNEL(bias_backward_rows, ARG(i64, rows), ARG(i64, channels), ARG(i64, slices),
       IN(MItype, y_diff), OUT(MOtype, b_diff)) {
  LOCAL Acctype parts[GROUP];
  const i32 t = LOCAL_ID(0), lane = t % 32;
  const i64 c = (i64)GROUP_ID(0) * 32 + lane, slice = GROUP_ID(1);
  Acctype sum = 0;
  if (c < channels) {
    const i64 step = slices * (GROUP / 32);
    for (i64 r = slice * (GROUP / 32) + t / 32; r < rows; r += 8 * step) {
      Acctype v[8];
      UNROLL for (i32 k = 0; k < 8; ++k) {
        const i64 row = r + k * step;
        v[k] = row < rows ? LOAD(MItype, y_diff, row * channels + c) : (Acctype)0;
      }
      UNROLL for (i32 k = 0; k < 8; ++k) sum += v[k];
    }
  }
  parts[t] = sum;
  BARRIER;
  if (t < 32 && c < channels) {
    for (i32 j = 1; j < GROUP / 32; ++j) sum += parts[j * 32 + lane];
    STORE(MOtype, b_diff, slice * channels + c, sum);
  }
}
