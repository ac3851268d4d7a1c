//! types: float
//! tests: net
// A histogram of `bins` bins over [-limit, limit], where limit is a power of two. counts has one
// more element, the number of zeros, which no bin holds. It takes three launches to add an array:
//   histogram_widen  doubles limit until it exceeds all values of range, as kernels/quant/min_max.h
//                    finds it, and unites neighbouring bins as often, with one work item
//   histogram_parts  counts one part of the array in each work item
//   histogram_add    adds the counts of all parts, with one work item per bin
// Sums of integers do not depend on their order. Infinities and NaN are left out.
KERNEL(histogram_widen, ARG(i64, n), IN(Mastertype, range), OUT(Mastertype, limit),
       OUT(i64, counts), ARG(i64, bins)) {
  FOR_EACH_GROUP(g, n) {
    const Acctype low = LOAD(Mastertype, range, 0), high = LOAD(Mastertype, range, 1);
    const Acctype largest = -low > high ? -low : high;
    Acctype reach = LOAD(Mastertype, limit, g);
    Index half_bins = (Index)(bins / 2), shift = 0;
    // Values beyond the last limit are counted in the first and the last bin.
    while (low <= high && reach <= largest && reach < -LOWEST / 4) {
      reach = reach * 2;
      ++shift;
    }
    if (shift > 0) {
      STORE(Mastertype, limit, g, reach);
      if (shift > 30) shift = 30;
      for (Index i = 1; i < half_bins; ++i) {
        const i64 above = LOAD(i64, counts, half_bins + i);
        const i64 below = LOAD(i64, counts, half_bins - 1 - i);
        const Index target = i >> shift;
        STORE(i64, counts, half_bins + i, 0);
        STORE(i64, counts, half_bins - 1 - i, 0);
        STORE(i64, counts, half_bins + target, LOAD(i64, counts, half_bins + target) + above);
        STORE(i64, counts, half_bins - 1 - target,
              LOAD(i64, counts, half_bins - 1 - target) + below);
      }
    }
  }
}

// Part g holds the elements g * first + i * step.
KERNEL(histogram_parts, ARG(i64, parts), IN(MItype, x), IN(Mastertype, limit), OUT(i32, part_counts),
       ARG(i64, n), ARG(i64, bins), ARG(i64, first), ARG(i64, step), ARG(i64, length)) {
  FOR_EACH_GROUP(g, parts) {
    const Index half_bins = (Index)(bins / 2);
    const i64 row = g * (bins + 1);
    for (Index b = 0; b <= 2 * half_bins; ++b) STORE(i32, part_counts, row + b, 0);
    const Acctype scale = (Acctype)half_bins / LOAD(Mastertype, limit, 0);
    for (i64 k = 0; k < length; ++k) {
      const i64 i = g * first + k * step;
      if (i < n) {
        const Acctype v = LOAD(MItype, x, i);
        if (v >= LOWEST && v <= -LOWEST) {
          const Acctype position = v * scale;  // exact: scale is a power of two
          const Acctype inside = position >= (Acctype)half_bins    ? (Acctype)(half_bins - 1)
                                 : position < -(Acctype)half_bins ? -(Acctype)half_bins
                                                                  : position;
          Index bin = (Index)inside;
          bin = (Acctype)bin > inside ? bin - 1 : bin;
          bin = v == 0 ? 2 * half_bins : bin + half_bins;
          STORE(i32, part_counts, row + bin, LOAD(i32, part_counts, row + bin) + 1);
        }
      }
    }
  }
}

KERNEL(histogram_add, ARG(i64, n), IN(i32, part_counts), OUT(i64, counts), ARG(i64, parts)) {
  FOR_EACH_GROUP(b, n) {
    i64 sum = LOAD(i64, counts, b);
    for (i64 g = 0; g < parts; ++g) sum += LOAD(i32, part_counts, g * n + b);
    STORE(i64, counts, b, sum);
  }
}
