// x clamped to [low, high]. NaN is propagated. Each of the two steps is one instruction of
// processors.
DEVICE_FN Acctype clip_value(Acctype x, Acctype low, Acctype high) {
  const Acctype v = x < low ? low : x;
  return v > high ? high : v;
}
