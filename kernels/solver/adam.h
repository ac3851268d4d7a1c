//! types: float
// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= rate correction m / (sqrt(v) + delta), where the correction depends on the iteration
// (arXiv 1412.6980, end of section 2).
// reals: 0 rate, 2 skip, 3 factor on gradients, 4 correction. g becomes the update.
KERNEL(adam_update, ARG(i64, n), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, m), OUT(Dtype, v),
       IN(f32, reals), ARG(Acctype, rate_mult), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, beta1), ARG(Acctype, beta2), ARG(Acctype, delta)) {
  if (LOAD(f32, reals, 2) != 0.0f) return;
  const Acctype rate = LOAD(f32, reals, 0) * LOAD(f32, reals, 4) * rate_mult;
  const Acctype factor = LOAD(f32, reals, 3) * normalize;
  FOR_EACH(i, n) {
    const Acctype x = LOAD(Dtype, w, i);
    const Acctype sign = (Acctype)((x > 0) - (x < 0));
    const Acctype d = LOAD(Dtype, g, i) * factor + l2 * x + l1 * sign;
    const Acctype mean = beta1 * LOAD(Dtype, m, i) + (REAL(1.0) - beta1) * d;
    const Acctype square = beta2 * LOAD(Dtype, v, i) + (REAL(1.0) - beta2) * (d * d);
    const Acctype step = rate * mean / (SQRT(square) + delta);
    STORE(Dtype, m, i, mean);
    STORE(Dtype, v, i, square);
    STORE(Dtype, g, i, step);
    STORE(Dtype, w, i, x - step);
  }
}
