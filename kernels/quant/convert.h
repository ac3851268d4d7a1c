//! types: pairs
// y = x in another type: the Quantizer layer and derived copies. Real values are
// scale_x * (code - zero_x) for quantized x, x itself otherwise; quantizing multiplies by
// inverse_scale = 1 / scale_y, rounds half away from zero and clamps in real numbers; NaN becomes
// the zero point. x_low and x_high clamp: they are code_min - zero and code_max - zero of y.
SPAN_KERNEL(convert, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
            ARG(Acctype, inverse_scale), ARG(Acctype, low), ARG(Acctype, high)) {
  MAP1(n, MOtype, y, MItype, x, v,
       CAT(from_real_, MOtype)((Acctype)v * scale * inverse_scale, low, high))
}
