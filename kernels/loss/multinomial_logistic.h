//! types: float
// p are probabilities [items, classes]. Terms are -log max(p[label], low) and the item's
// class_weight.
KERNEL(multinomial_logistic_forward, ARG(i64, items), ARG(i64, classes), ARG(Acctype, low),
       IN(MItype, p), IN(f32, labels), OUT(Mastertype, terms)) {
  FOR_EACH(i, items) {
    const float given = LOAD(f32, labels, i);
    const i32 label = class_of(given, classes, 0, 0);
    const Acctype v = LOAD(MItype, p, i * classes + (label < 0 ? 0 : label));
    const Acctype loss = -LOG(v < low ? low : v);
    STORE(Mastertype, terms, i, label >= 0 ? loss : given);
    STORE(Mastertype, terms, items + i, class_weight(label));
  }
}

KERNEL(multinomial_logistic_backward, ARG(i64, items), ARG(i64, classes), ARG(Acctype, low),
       ARG(Acctype, factor), IN(MItype, p), IN(f32, labels), IN(Mastertype, loss_diff),
       OUT(MItype, diff)) {
  FOR_EACH_ROW(i, items, c, classes) {
    const i32 label = class_of(LOAD(f32, labels, i), classes, 0, 0);
    const Acctype v = LOAD(MItype, p, i * classes + c);
    const Acctype d = -factor * LOAD(Mastertype, loss_diff, 0) / (v < low ? low : v);
    STORE(MItype, diff, i * classes + c, c == label ? d : 0);
  }
}
