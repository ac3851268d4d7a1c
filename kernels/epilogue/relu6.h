// 6 if x > 6, x if x > 0, else slope x. NaN is propagated.
DEVICE_FN Acctype relu6_value(Acctype x, Acctype slope) { return x > 6 ? 6 : x > 0 ? x : x * slope; }
