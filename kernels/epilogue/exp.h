// outer e^(inner x).
DEVICE_FN Acctype exp_value(Acctype x, Acctype inner, Acctype outer) {
  return EXP(x * inner) * outer;
}
