// Partial sums of [outer, channels, inner] for each channel. `slices` times `lanes` work items
// share a channel: slice s adds every slices-th plane from s on, a lane every lanes-th element of
// it, so that neighbouring work items read neighbouring elements. A kernel's arguments are
//   ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices), ARG(i64, lanes)
// and OUT(Mastertype, parts), [slices * lanes, channels].

// `before` has declarations for the channel c; `add` adds the elements of a lane behind `row` to
// `part`; the part is `result` of their sum.
#define CHANNEL_PARTS(before, add, result)                                                  \
  FOR_EACH_GROUP(g, channels * slices * lanes) {                                            \
    const Index lane = g % lanes, c = g / lanes % channels, slice = g / lanes / channels;   \
    before                                                                                  \
    Acctype sum = 0;                                                                        \
    for (Index o = slice; o < outer; o += slices) {                                         \
      const Index row = (o * channels + c) * inner;                                         \
      Acctype part = 0;                                                                     \
      SIMD_SUM(part)                                                                        \
      add                                                                                   \
      sum += part;                                                                          \
    }                                                                                       \
    STORE(Mastertype, parts, (slice * lanes + lane) * channels + c, result);                \
  }

// Two sums, of which `add` adds to `sum_part` and `dot_part`: parts is [2, slices * lanes,
// channels].
#define CHANNEL_PARTS2(before, add)                                                         \
  FOR_EACH_GROUP(g, channels * slices * lanes) {                                            \
    const Index lane = g % lanes, c = g / lanes % channels, slice = g / lanes / channels;   \
    before                                                                                  \
    Acctype sum = 0, dot = 0;                                                               \
    for (Index o = slice; o < outer; o += slices) {                                         \
      const Index row = (o * channels + c) * inner;                                         \
      Acctype sum_part = 0, dot_part = 0;                                                   \
      SIMD_SUM2(sum_part, dot_part)                                                         \
      add                                                                                   \
      sum += sum_part;                                                                      \
      dot += dot_part;                                                                      \
    }                                                                                       \
    const Index at = (slice * lanes + lane) * channels + c;                                 \
    STORE(Mastertype, parts, at, sum);                                                      \
    STORE(Mastertype, parts, slices * lanes * channels + at, dot);                          \
  }
