// ReLU without and with a slope below 0; PReLU is the latter with a slope per channel. rescale is
// s_x / s_y for quantized types, whose slope is multiplied by it, too, and 1 for float kinds. NaN
// is propagated.
DEVICE_FN Acctype relu_value(Acctype x, Scaletype rescale) {
  return x < 0 ? (Acctype)0 : RESCALE(x, rescale);
}

DEVICE_FN Acctype leaky_value(Acctype x, Scaletype rescale, Scaletype slope) {
  return x > 0 ? RESCALE(x, rescale) : SCALE(x, slope);
}
