// shift + scale x to the power 1, 2, or any other one.
DEVICE_FN Acctype linear_value(Acctype x, Acctype scale, Acctype shift) {
  return x * scale + shift;
}

DEVICE_FN Acctype square_value(Acctype x, Acctype scale, Acctype shift) {
  const Acctype u = x * scale + shift;
  return u * u;
}

DEVICE_FN Acctype power_value(Acctype x, Acctype scale, Acctype shift, Acctype power) {
  return POW(x * scale + shift, power);
}
