//! types: float quantized
// y = 0 if x < 0, else x; with a slope x if x > 0, else slope * x: what is no number stays none. In
// place allowed. For quantized types rescale is s_x / s_y and slope carries it too; for float kinds
// rescale is 1.
KERNEL(relu_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    STORE(MOtype, y, i, v < 0 ? (Acctype)0 : RESCALE(v, rescale));
  }
}

KERNEL(relu_forward_slope, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale),
       ARG(Scaletype, slope)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    STORE(MOtype, y, i, v > 0 ? RESCALE(v, rescale) : SCALE(v, slope));
  }
}

#if FLOAT_KIND
KERNEL(relu_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Scaletype, slope)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, LOAD(MItype, x, i) > 0 ? d : SCALE(d, slope));
  }
}
#endif
