//! types: float quantized
#if FLOAT_KIND
DEVICE_FN i32 is_lost(Acctype v) { return v != v; }
#else
DEVICE_FN i32 is_lost(Acctype v) { return (void)v, 0; }
#endif

// Whether element i of value v comes before element j of value w: larger values first, then larger
// indices; NaN comes last.
DEVICE_FN i32 comes_before(Acctype v, Index i, Acctype w, Index j) {
  const i32 v_lost = is_lost(v), w_lost = is_lost(w);
  return v_lost != w_lost ? w_lost : (!v_lost && v != w) ? v > w : i > j;
}

// x is [outer, channels, inner]. Finds the first top_k of each line of channels. Line i is at
// position i % inner of outer i / inner; its results are at y[i / inner, parts, top_k, i % inner].
// Indices go to part `index_part`, values to part `value_part`; a negative part is not written.
// Codes have the order of their values, scale (code - zero point). `scale` holds the bits of a
// float, which is 1 for float kinds.
KERNEL(argmax, ARG(i64, lines), ARG(i64, channels), ARG(i64, inner), ARG(i32, top_k),
       ARG(i32, parts), ARG(i32, index_part), ARG(i32, value_part),
       ARG(u32, scale), IN(MItype, x), OUT(f32, y)) {
  FOR_EACH_GROUP(i, lines) {
    const Index outer = i / inner, position = i - outer * inner;
    const Index from = outer * channels * inner + position;
    const Index to = outer * parts * top_k * inner + position;
    Acctype before = 0;
    Index before_index = -1;
    for (i32 k = 0; k < top_k; ++k) {
      Acctype best = 0;
      Index index = -1;
      for (Index c = 0; c < channels; ++c) {
        const Acctype v = LOAD(MItype, x, from + c * inner);
        const i32 is_left = k == 0 || comes_before(before, before_index, v, c);
        const i32 better = is_left && (index < 0 || comes_before(v, c, best, index));
        best = better ? v : best;
        index = better ? c : index;
      }
      if (index_part >= 0) STORE(f32, y, to + (index_part * top_k + k) * inner, (float)index);
      const float value = (float)best * as_f32(scale);
      if (value_part >= 0) STORE(f32, y, to + (value_part * top_k + k) * inner, value);
      before = best;
      before_index = index;
    }
  }
}
