// x s(beta x) with the logistic function s(v) = 1 / (1 + e^-v), computed from e^-|v|, which cannot
// overflow. s can be exactly 0: its product with an infinite x is 0.
DEVICE_FN Acctype swish_value(Acctype x, Acctype beta) {
  const Acctype v = x * beta, e = EXP(v < 0 ? v : -v);
  const Acctype s = (v < 0 ? e : REAL(1.0)) / (REAL(1.0) + e);
  return s == 0 ? s : x * s;
}

// s + v s (1 - s), where s (1 - s) is e / (1 + e)^2. If that is 0, its product with v is skipped.
DEVICE_FN Acctype swish_gradient(Acctype d, Acctype x, Acctype beta) {
  const Acctype v = x * beta, e = EXP(v < 0 ? v : -v), sum = REAL(1.0) + e;
  const Acctype s = (v < 0 ? e : REAL(1.0)) / sum, both = e / (sum * sum);
  return d * (both == 0 ? s : s + v * both);
}
