// tanh(x).
DEVICE_FN Acctype tanh_value(Acctype x) { return TANH(x); }
