// 1 / (1 + e^-x), computed from e^-|x|: it cannot overflow, and small results keep their precision.
DEVICE_FN Acctype sigmoid_value(Acctype x) {
  const Acctype e = EXP(x < 0 ? x : -x);
  return (x < 0 ? e : REAL(1.0)) / (REAL(1.0) + e);
}
