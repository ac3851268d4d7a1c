//! types: pairs
// y = x in another type: the Quantizer layer and derived copies. Real values are
// scale_x * (code - zero_x) for quantized x, x itself otherwise; quantizing multiplies by
// inverse_scale = 1 / scale_y, rounds half away from zero and clamps in real numbers; NaN becomes
// the zero point. x_low and x_high clamp: they are code_min - zero and code_max - zero of y.
KERNEL(convert, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, inverse_scale), ARG(Acctype, low), ARG(Acctype, high)) {
  FOR_EACH(i, n) {
    const Acctype v = (Acctype)LOAD(MItype, x, i) * scale;
    STORE(MOtype, y, i, CAT(from_real_, MOtype)(v * inverse_scale, low, high));
  }
}
