// x if x > 0, else alpha (e^x - 1).
DEVICE_FN Acctype elu_value(Acctype x, Acctype alpha) { return x > 0 ? x : alpha * EXPM1(x); }
