//! types: float
// Sums of [outer, channels, inner] for each channel. `slices` times `lanes` work items share a
// channel: slice s adds every slices-th plane from s on, a lane every lanes-th element of it, so
// that neighbouring work items read neighbouring elements. parts is [slices * lanes, channels].
KERNEL(channel_sum, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, channels * slices * lanes) {
    const Index lane = g % lanes, c = g / lanes % channels, slice = g / lanes / channels;
    Acctype sum = 0;
    for (Index o = slice; o < outer; o += slices) {
      const Index row = (o * channels + c) * inner;
      Acctype part = 0;
      SIMD_SUM(part)
      LANES1(lane, lanes, row, inner, MItype, a, v, part += v)
      sum += part;
    }
    STORE(Mastertype, parts, (slice * lanes + lane) * channels + c, sum);
  }
}

KERNEL(channel_dot, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), IN(MItype, b), OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, channels * slices * lanes) {
    const Index lane = g % lanes, c = g / lanes % channels, slice = g / lanes / channels;
    Acctype sum = 0;
    for (Index o = slice; o < outer; o += slices) {
      const Index row = (o * channels + c) * inner;
      Acctype part = 0;
      SIMD_SUM(part)
      LANES2(lane, lanes, row, inner, MItype, a, v, MItype, b, u, part += v * u)
      sum += part;
    }
    STORE(Mastertype, parts, (slice * lanes + lane) * channels + c, sum);
  }
}

// Sums of b and of a b: [2, slices * lanes, channels].
KERNEL(channel_sum_dot, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), IN(MItype, b), OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, channels * slices * lanes) {
    const Index lane = g % lanes, c = g / lanes % channels, slice = g / lanes / channels;
    Acctype sum = 0, dot = 0;
    for (Index o = slice; o < outer; o += slices) {
      const Index row = (o * channels + c) * inner;
      Acctype sum_part = 0, dot_part = 0;
      SIMD_SUM2(sum_part, dot_part)
      LANES2(lane, lanes, row, inner, MItype, a, v, MItype, b, u, sum_part += u; dot_part += v * u)
      sum += sum_part;
      dot += dot_part;
    }
    const Index at = (slice * lanes + lane) * channels + c;
    STORE(Mastertype, parts, at, sum);
    STORE(Mastertype, parts, slices * lanes * channels + at, dot);
  }
}

// x is [sums, count, channels]; y [sums, channels] = the sum over count, added to y if `add`.
KERNEL(channel_sums_finish, ARG(i64, n), ARG(i64, channels), ARG(i64, count), ARG(i32, add),
       IN(Mastertype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    const Index which = i / channels;
    const Index at = which * count * channels + (i - which * channels);
    Acctype sum = add ? LOAD(MOtype, y, i) : 0;
    for (Index p = 0; p < count; ++p) sum += LOAD(Mastertype, x, at + p * channels);
    STORE(MOtype, y, i, sum);
  }
}
