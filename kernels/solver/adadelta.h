//! types: float
// h = momentum h + (1 - momentum) g^2; u = g sqrt((k + delta) / (h + delta));
// k = momentum k + (1 - momentum) u^2; w -= rate u.
// reals: 0 rate, 2 skip, 3 factor on gradients. g becomes the update.
KERNEL(adadelta_update, ARG(i64, n), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, h), OUT(Dtype, k),
       IN(f32, reals), ARG(Acctype, rate_mult), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, momentum), ARG(Acctype, delta)) {
  if (LOAD(f32, reals, 2) != 0.0f) return;
  const Acctype rate = LOAD(f32, reals, 0) * rate_mult;
  const Acctype factor = LOAD(f32, reals, 3) * normalize;
  FOR_EACH(i, n) {
    const Acctype x = LOAD(Dtype, w, i);
    const Acctype sign = (Acctype)((x > 0) - (x < 0));
    const Acctype d = LOAD(Dtype, g, i) * factor + l2 * x + l1 * sign;
    const Acctype mean = momentum * LOAD(Dtype, h, i) + (REAL(1.0) - momentum) * (d * d);
    const Acctype old = LOAD(Dtype, k, i);
    const Acctype u = d * SQRT((old + delta) / (mean + delta));
    const Acctype step = rate * u;
    STORE(Dtype, h, i, mean);
    STORE(Dtype, k, i, momentum * old + (REAL(1.0) - momentum) * (u * u));
    STORE(Dtype, g, i, step);
    STORE(Dtype, w, i, x - step);
  }
}
