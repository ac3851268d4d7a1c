// One term of a weighted sum.
DEVICE_FN Acctype sum_value(Acctype v, Acctype term, Acctype coefficient) {
  return v + term * coefficient;
}
