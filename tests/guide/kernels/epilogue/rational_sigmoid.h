// v / (alpha + |v|), without a quotient of two infinities.
DEVICE_FN Acctype rational_sigmoid_value(Acctype v, Acctype alpha) {
  const Acctype m = v < 0 ? -v : v;
  const Acctype y = m > alpha ? REAL(1.0) / (REAL(1.0) + alpha / m) : m / (alpha + m);
  return v < 0 ? -y : y;
}

DEVICE_FN Acctype rational_sigmoid_gradient(Acctype d, Acctype v, Acctype alpha) {
  const Acctype sum = alpha + (v < 0 ? -v : v);
  return d * (alpha / sum / sum);
}
