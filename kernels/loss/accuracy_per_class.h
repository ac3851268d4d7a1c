//! types: once
// The share of hits among the items of each class. Terms are those of accuracy_hits.
KERNEL(accuracy_per_class, ARG(i64, channels), ARG(i64, items), IN(f32, labels), IN(f32, terms),
       OUT(f32, y)) {
  FOR_EACH_GROUP(c, channels) {
    float hits = 0, count = 0;
    for (Index i = 0; i < items; ++i) {
      const i32 here = class_of(LOAD(f32, labels, i), channels, 0, 0) == c;
      hits += here ? LOAD(f32, terms, i) : 0;
      count += here ? LOAD(f32, terms, items + i) : 0;
    }
    STORE(f32, y, c, count > 0 ? hits / count : 0);
  }
}
