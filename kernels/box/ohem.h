//! types: float
// Online hard example mining: the losses of items, and the choice of those with the largest ones.

// The terms of a sum (loss/term_sum.h) as losses of items; 0 for items that do not count.
KERNEL(ohem_losses, ARG(i64, n), IN(Mastertype, terms), OUT(f32, losses)) {
  FOR_EACH(i, n) {
    const Acctype weight = LOAD(Mastertype, terms, n + i);
    STORE(f32, losses, i, weight > 0 ? (float)LOAD(Mastertype, terms, i) : 0.0f);
  }
}

// The sum of f(u (a - b)) over the channels of each pixel of [outer, channels, inner], as in
// loss/smooth_l1.h. There are inside weights u if `weights` is positive.
KERNEL(ohem_smooth_l1, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), ARG(i32, weights),
       ARG(Acctype, sigma2), IN(MItype, a), IN(MItype, b), IN(f32, inside), OUT(f32, losses)) {
  FOR_EACH_ROW(o, outer, s, inner) {
    Acctype sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Index i = (o * channels + c) * inner + s;
      const Acctype u = weights > 0 ? LOAD(f32, inside, i) : 1.0f;
      const Acctype d = u * (LOAD(MItype, a, i) - LOAD(MItype, b, i)), size = d < 0 ? -d : d;
      sum += size * sigma2 < 1 ? REAL(0.5) * sigma2 * d * d : size - REAL(0.5) / sigma2;
    }
    STORE(f32, losses, o * inner + s, (float)sum);
  }
}

// Keeps the labels and weights of the `limit` items of each image with the largest losses; of equal
// ones the earlier item. The others get the label `ignored` and weights of 0. Item i belongs to
// region i / inner, whose image is rois[5 i / inner]; its weights are [regions, channels, inner].
KERNEL(ohem_choose, ARG(i64, n), ARG(i64, inner), ARG(i64, channels), ARG(i64, limit),
       ARG(i32, ignored), IN(f32, rois), IN(MItype, losses), IN(f32, labels), IN(f32, weights),
       OUT(f32, labels_out), OUT(f32, weights_out)) {
  FOR_EACH_GROUP(i, n) {
    const Index region = i / inner, pixel = i - region * inner;
    const float image = LOAD(f32, rois, 5 * region);
    const Acctype loss = LOAD(MItype, losses, i);
    Index better = 0;
    for (Index j = 0; j < n; ++j) {
      const Acctype other = LOAD(MItype, losses, j);
      const i32 first = other > loss || (other == loss && j < i);
      better += first && LOAD(f32, rois, 5 * (j / inner)) == image;
    }
    STORE(f32, labels_out, i, better < limit ? LOAD(f32, labels, i) : (float)ignored);
    for (Index c = 0; c < channels; ++c) {
      const Index at = (region * channels + c) * inner + pixel;
      STORE(f32, weights_out, at, better < limit ? LOAD(f32, weights, at) : 0.0f);
    }
  }
}
