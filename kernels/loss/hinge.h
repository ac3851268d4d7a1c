//! types: float
// The margin is 1 - x at the label and 1 + x elsewhere. Terms are [2, items]: the sum of an item's
// positive margins, or of their squares, and the item's class_weight.
KERNEL(hinge_forward, ARG(i64, items), ARG(i64, classes), ARG(i32, squared), IN(MItype, x),
       IN(f32, labels), OUT(Mastertype, terms)) {
  FOR_EACH_GROUP(i, items) {
    const float given = LOAD(f32, labels, i);
    const i32 label = class_of(given, classes, 0, 0);
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index c = 0; c < classes; ++c) {
      const Acctype v = LOAD(MItype, x, i * classes + c);
      const Acctype margin = c == label ? 1 - v : 1 + v;
      const Acctype open = margin < 0 ? 0 : margin;
      sum += squared ? open * open : open;
    }
    STORE(Mastertype, terms, i, label >= 0 ? sum : given);
    STORE(Mastertype, terms, items + i, class_weight(label));
  }
}

KERNEL(hinge_backward, ARG(i64, items), ARG(i64, classes), ARG(i32, squared), ARG(Acctype, factor),
       IN(MItype, x), IN(f32, labels), IN(Mastertype, loss_diff), OUT(MItype, diff)) {
  FOR_EACH_ROW(i, items, c, classes) {
    const i32 label = class_of(LOAD(f32, labels, i), classes, 0, 0);
    const Acctype v = LOAD(MItype, x, i * classes + c);
    const Acctype sign = c == label ? -1 : 1, margin = 1 + sign * v;
    const Acctype slope = margin > 0 && label >= 0 ? sign : 0;
    const Acctype d = slope * (squared ? 2 * margin : 1);
    STORE(MItype, diff, i * classes + c, d * factor * LOAD(Mastertype, loss_diff, 0));
  }
}
