//! types: float
//! tests: net
// Quantize and dequantize in float: a code is a real number that an integer net can hold. `grid`
// has four numbers: scale, 1 / scale, and the smallest and largest code minus the zero point.

// Moves range = (low, high) towards `seen`, the smallest and largest value of a batch, by `rate` of
// the distance; the first batch sets it. `seen` becomes empty. A batch without a finite value
// changes nothing. Then the grid of codes 0 to `codes`: see AffineRange in quant/observer.hpp.
KERNEL(pseudo_move, ARG(i64, n), OUT(Mastertype, seen), OUT(Mastertype, range),
       OUT(Mastertype, grid), ARG(Acctype, rate), ARG(Acctype, codes)) {
  FOR_EACH_GROUP(g, n) {
    const Acctype seen_low = LOAD(Mastertype, seen, 0), seen_high = LOAD(Mastertype, seen, 1);
    Acctype low = LOAD(Mastertype, range, 0), high = LOAD(Mastertype, range, 1);
    if (seen_low <= seen_high) {
      const int first = low > high;
      low = first ? seen_low : low + rate * (seen_low - low);
      high = first ? seen_high : high + rate * (seen_high - high);
      STORE(Mastertype, range, 0, low);
      STORE(Mastertype, range, 1, high);
      STORE(Mastertype, seen, 0, -LOWEST);
      STORE(Mastertype, seen, 1, LOWEST);
    }
    low = low < 0 ? low : 0;
    high = high > 0 ? high : 0;
    Acctype scale = (high - low) / codes;
    if (scale < REAL(1.1754943508222875e-38)) {
      scale = low == high ? REAL(1.0) : REAL(1.1754943508222875e-38);
    }
    const Acctype zero = (Acctype)CAT(round_, Mastertype)(-low / scale < codes ? -low / scale : codes);
    STORE(Mastertype, grid, 0, scale);
    STORE(Mastertype, grid, 1, REAL(1.0) / scale);
    STORE(Mastertype, grid, 2, -zero);
    STORE(Mastertype, grid, 3, codes - zero);
  }
}

// x becomes scale * code, in place; inside is 1 where the code was not clamped. NaN stays NaN.
KERNEL(pseudo_quantize, ARG(i64, n), OUT(MItype, x), OUT(MItype, inside), IN(Mastertype, grid)) {
  FOR_EACH(i, n) {
    const Acctype scale = LOAD(Mastertype, grid, 0), inverse = LOAD(Mastertype, grid, 1),
                  low = LOAD(Mastertype, grid, 2), high = LOAD(Mastertype, grid, 3);
    const Acctype v = LOAD(MItype, x, i) * inverse;
    const Acctype clamped = v > low ? (v < high ? v : high) : low;
    const Acctype code = (Acctype)CAT(round_, Mastertype)(clamped);
    STORE(MItype, x, i, v == v ? code * scale : v);
    STORE(MItype, inside, i, v > low - REAL(0.5) && v < high + REAL(0.5) ? 1 : 0);
  }
}

// The straight-through gradient: that of y where the code was not clamped, else 0. In place.
KERNEL(pseudo_backward, ARG(i64, n), IN(MItype, inside), OUT(MItype, diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, diff, i, LOAD(MItype, inside, i) != 0 ? LOAD(MItype, diff, i) : 0);
  }
}

// scale[c] of the symmetric codes -codes to codes of output channel c: max |w| / codes. w is
// [group, outer, middle, inner]; channel c = g middle + j has the elements [g, :, j, :].
KERNEL(pseudo_channel_scales, ARG(i64, channels), IN(Mastertype, w), OUT(Mastertype, scale),
       ARG(i64, middle), ARG(i64, outer), ARG(i64, inner), ARG(Acctype, codes)) {
  FOR_EACH_GROUP(c, channels) {
    const Index g = (Index)(c / middle), j = (Index)(c % middle);
    Acctype largest = 0;
    for (Index o = 0; o < outer; ++o) {
      const Index row = (Index)(((g * outer + o) * middle + j) * inner);
      for (Index i = 0; i < inner; ++i) {
        const Acctype v = LOAD(Mastertype, w, row + i);
        const Acctype size = v < 0 ? -v : v;
        largest = size > largest ? size : largest;
      }
    }
    Acctype s = largest / codes;
    if (s < REAL(1.1754943508222875e-38)) s = largest == 0 ? REAL(1.0) : REAL(1.1754943508222875e-38);
    STORE(Mastertype, scale, c, s);
  }
}

// y = w in the codes of its channel, as a real number.
KERNEL(pseudo_weights, ARG(i64, n), IN(Mastertype, w), IN(Mastertype, scale), OUT(Mastertype, y),
       ARG(i64, middle), ARG(i64, outer), ARG(i64, inner), ARG(Acctype, codes)) {
  FOR_EACH(i, n) {
    const Index row = (Index)(i / inner);
    const Index c = (Index)(row / (middle * outer) * middle + row % middle);
    const Acctype s = LOAD(Mastertype, scale, c);
    const Acctype v = LOAD(Mastertype, w, i) / s;
    const Acctype clamped = v > -codes ? (v < codes ? v : codes) : -codes;
    STORE(Mastertype, y, i, v == v ? (Acctype)CAT(round_, Mastertype)(clamped) * s : v);
  }
}
