// ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|).
DEVICE_FN Acctype bnll_value(Acctype x) {
  const Acctype e = EXP(x < 0 ? x : -x), u = REAL(1.0) + e;
  // ln(1 + e) without the rounding error of u = 1 + e: Goldberg, What every computer scientist
  // should know about floating-point arithmetic, theorem 4.
  const Acctype log_u = u == 1 ? e : LOG(u) * (e / (u - REAL(1.0)));
  return x > 0 ? x + log_u : log_u;
}
