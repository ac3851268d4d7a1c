//! types: float
// A standard normal number from a random word: sqrt(2) times the inverse error function of a
// uniform number in (-1, 1), by the polynomials of M. Giles, "Approximating the erfinv function"
// (2012).
DEVICE_FN Acctype noise_normal(u32 word) {
  const Acctype x = ((Acctype)(word >> 8) + REAL(0.5)) * REAL(1.1920928955078125e-7) - 1;
  Acctype w = -LOG((1 - x) * (1 + x)), p;
  if (w < 5) {
    w -= REAL(2.5);
    p = REAL(2.81022636e-8);
    p = REAL(3.43273939e-7) + p * w;
    p = REAL(-3.5233877e-6) + p * w;
    p = REAL(-4.39150654e-6) + p * w;
    p = REAL(0.00021858087) + p * w;
    p = REAL(-0.00125372503) + p * w;
    p = REAL(-0.00417768164) + p * w;
    p = REAL(0.246640727) + p * w;
    p = REAL(1.50140941) + p * w;
  } else {
    w = SQRT(w) - 3;
    p = REAL(-0.000200214257);
    p = REAL(0.000100950558) + p * w;
    p = REAL(0.00134934322) + p * w;
    p = REAL(-0.00367342844) + p * w;
    p = REAL(0.00573950773) + p * w;
    p = REAL(-0.0076224613) + p * w;
    p = REAL(0.00943887047) + p * w;
    p = REAL(1.00167406) + p * w;
    p = REAL(2.83297682) + p * w;
  }
  return p * x * REAL(1.4142135623730951);
}

// y = x * noise, or x + noise, where row r has the number mu + sigma * normal(counter r). In place
// allowed.
KERNEL(noise_apply, ARG(i64, rows), ARG(i64, columns), ARG(Acctype, mu), ARG(Acctype, sigma),
       ARG(i32, additive), IN(MItype, x), OUT(MOtype, y), IN(i32, counters), ARG(u64, seed)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const u64 counter = ((u64)(u32)LOAD(i32, counters, 0) << 32) + (u64)r;
    const Random4 random = philox(counter, seed);
    const Acctype noise = mu + sigma * noise_normal(random.v0);
    const Acctype v = LOAD(MItype, x, r * columns + c);
    STORE(MOtype, y, r * columns + c, additive ? v + noise : v * noise);
  }
}
