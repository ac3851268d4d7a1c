//! types: float
// x and p are [outer, channels, inner], labels [outer, inner], h [channels, channels]; p =
// softmax(x). Terms are -sum of h[label, c] max(log p[c], log 10^-20) and the item's class_weight.
// row_sums[label] is the sum of h[label].
KERNEL(infogain_forward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), ARG(i32, ignoring),
       ARG(i32, ignored), IN(MItype, x), IN(f32, labels), IN(f32, h), OUT(MOtype, p),
       OUT(Mastertype, row_sums), OUT(Mastertype, terms)) {
  FOR_EACH_ROW(o, outer, s, inner) {
    const Index at = o * channels * inner + s, term = o * inner + s;
    const float given = LOAD(f32, labels, term);
    const i32 label = class_of(given, channels, ignoring, ignored);
    const Index row = (label < 0 ? 0 : label) * channels;
    Acctype top = LOWEST, sum = 0, loss = 0, row_sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c * inner);
      top = v > top ? v : top;
    }
    for (Index c = 0; c < channels; ++c) sum += EXP(LOAD(MItype, x, at + c * inner) - top);
    const Acctype log_sum = LOG(sum), least = REAL(-46.05170185988091);
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c * inner) - top;
      const Acctype log_p = v - log_sum, gain = LOAD(f32, h, row + c);
      STORE(MOtype, p, at + c * inner, EXP(v) / sum);
      loss -= gain * (log_p < least ? least : log_p);
      row_sum += gain;
    }
    STORE(Mastertype, row_sums, term, row_sum);
    STORE(Mastertype, terms, term, label >= 0 ? loss : label == -1 ? 0 : given);
    STORE(Mastertype, terms, outer * inner + term, class_weight(label));
  }
}

KERNEL(infogain_backward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), ARG(i32, ignoring),
       ARG(i32, ignored), IN(MOtype, p), IN(f32, labels), IN(f32, h), IN(Mastertype, row_sums),
       IN(Mastertype, loss_diff), IN(Mastertype, divisor), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, outer * channels, s, inner) {
    const Index o = r / (Index)channels, c = r - o * channels, term = o * inner + s;
    const i32 label = class_of(LOAD(f32, labels, term), channels, ignoring, ignored);
    const Acctype factor = LOAD(Mastertype, loss_diff, 0) / LOAD(Mastertype, divisor, 0);
    const Acctype d = LOAD(MOtype, p, r * inner + s) * LOAD(Mastertype, row_sums, term) -
                      LOAD(f32, h, (label < 0 ? 0 : label) * channels + c);
    STORE(MItype, x_diff, r * inner + s, label < 0 ? 0 : d * factor);
  }
}
