//! types: float quantized
#if FLOAT_KIND
DEVICE_FN i32 score_is_nan(Acctype v) { return v != v; }
DEVICE_FN i32 score_is_lost(Acctype v) { return !(v <= -LOWEST); }  // NaN or infinity
#else
DEVICE_FN i32 score_is_nan(Acctype v) { return (void)v, 0; }
DEVICE_FN i32 score_is_lost(Acctype v) { return (void)v, 0; }
#endif

// Scores are [outer, channels, inner]; item i is position i % inner of outer i / inner. Terms are
// [2, items]: 1 for a hit, else 0, and the item's class_weight. An item whose label has the score
// NaN is a miss, and another class with the score NaN is ranked above every number. lost[i] becomes
// 1 if a score of item i is NaN or infinity.
KERNEL(accuracy_hits, ARG(i64, items), ARG(i64, channels), ARG(i64, inner), ARG(i32, top_k),
       ARG(i32, ignoring), ARG(i32, ignored), IN(MItype, x), IN(f32, labels),
       OUT(f32, terms), OUT(f32, lost)) {
  FOR_EACH_GROUP(i, items) {
    const float given = LOAD(f32, labels, i);
    const i32 label = class_of(given, channels, ignoring, ignored);
    const Index at = i / inner * channels * inner + i % inner;
    const Acctype score = LOAD(MItype, x, at + (label < 0 ? 0 : label) * inner);
    i32 better = 0, lost_scores = 0;
    for (Index c = 0; c < channels; ++c) {
      const Acctype other = LOAD(MItype, x, at + c * inner);
      better += c != label && !(other < score);
      lost_scores += score_is_lost(other);
    }
    const i32 hit = better < top_k && !score_is_nan(score);
    STORE(f32, terms, i, label >= 0 ? (float)hit : label == -1 ? 0 : given);
    if (lost_scores > 0) STORE(f32, lost, i, 1.0f);
    STORE(f32, terms, items + i, class_weight(label));
  }
}
