//! types: float
// h = decay h + (1 - decay) g^2; w -= rate g / (sqrt(h) + delta).
// reals: 0 rate, 2 skip, 3 factor on gradients. g becomes the update.
KERNEL(rmsprop_update, ARG(i64, n), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, h), IN(f32, reals),
       ARG(Acctype, rate_mult), ARG(Acctype, l2), ARG(Acctype, l1), ARG(Acctype, normalize),
       ARG(Acctype, decay), ARG(Acctype, delta)) {
  if (LOAD(f32, reals, 2) != 0.0f) return;
  const Acctype rate = LOAD(f32, reals, 0) * rate_mult;
  const Acctype factor = LOAD(f32, reals, 3) * normalize;
  FOR_EACH(i, n) {
    const Acctype x = LOAD(Dtype, w, i);
    const Acctype sign = (Acctype)((x > 0) - (x < 0));
    const Acctype d = LOAD(Dtype, g, i) * factor + l2 * x + l1 * sign;
    const Acctype mean = decay * LOAD(Dtype, h, i) + (REAL(1.0) - decay) * (d * d);
    const Acctype step = rate * d / (SQRT(mean) + delta);
    STORE(Dtype, h, i, mean);
    STORE(Dtype, g, i, step);
    STORE(Dtype, w, i, x - step);
  }
}
