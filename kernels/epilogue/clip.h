// x, but not less than low and not more than high. NaN is propagated. In two steps, each of which is
// one instruction of processors.
DEVICE_FN Acctype clip_value(Acctype x, Acctype low, Acctype high) {
  const Acctype v = x < low ? low : x;
  return v > high ? high : v;
}
