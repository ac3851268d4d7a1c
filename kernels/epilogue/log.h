// factor ln(shift + scale x).
DEVICE_FN Acctype log_value(Acctype x, Acctype scale, Acctype shift, Acctype factor) {
  return LOG(x * scale + shift) * factor;
}
