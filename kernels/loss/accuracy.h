//! types: float quantized
// Scores are [outer, channels, inner]; item i is position i % inner of outer i / inner. Terms are
// [2, items]: 1 for a hit, else 0, and the item's class_weight.
KERNEL(accuracy_hits, ARG(i64, items), ARG(i64, channels), ARG(i64, inner), ARG(i32, top_k),
       ARG(i32, ignoring), ARG(i32, ignored), IN(MItype, x), IN(f32, labels),
       OUT(f32, terms)) {
  FOR_EACH_GROUP(i, items) {
    const float given = LOAD(f32, labels, i);
    const i32 label = class_of(given, channels, ignoring, ignored);
    const Index at = i / inner * channels * inner + i % inner;
    const Acctype score = LOAD(MItype, x, at + (label < 0 ? 0 : label) * inner);
    i32 better = 0;
    for (Index c = 0; c < channels; ++c) {
      better += c != label && LOAD(MItype, x, at + c * inner) >= score;
    }
    STORE(f32, terms, i, label >= 0 ? (float)(better < top_k) : label == -1 ? 0 : given);
    STORE(f32, terms, items + i, class_weight(label));
  }
}
