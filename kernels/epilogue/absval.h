// |x|. NaN is propagated.
DEVICE_FN Acctype absval_value(Acctype x) { return x > 0 ? x : 0 - x; }
