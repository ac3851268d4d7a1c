// Elementary functions in float from basic operations only: with contraction off they give the same
// bits on every device, which no two vendors' libraries do. Polynomials: Cephes, single precision.
DEVICE_FN float exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const float k = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // round to nearest
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  // 2^k in two factors, so that the ends of the range overflow and underflow as they should.
  const i32 n = (i32)k, half_n = n >> 1;
  const float y = (p * r * r + r) + 1.0f;
  return y * as_f32((u32)(half_n + 127) << 23) * as_f32((u32)(n - half_n + 127) << 23);
}

DEVICE_FN float log_f32(float x) {
  const i32 tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 33554432.0f : x;
  const u32 bits = as_u32(scaled);
  i32 e = (i32)((bits >> 23) & 0xffu) - 126 - (tiny ? 25 : 0);
  float m = as_f32((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const i32 low = m < 0.707106781f;
  e = low ? e - 1 : e;
  m = low ? m + m - 1.0f : m - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float f = (float)e;
  const float y = ((m * z * p + f * -2.12194440e-4f) - 0.5f * z + m) + f * 0.693359375f;
  const float inf = as_f32(0x7f800000u);
  return x == 0.0f ? -inf : x < 0.0f || x != x ? as_f32(0x7fc00000u) : x == inf ? inf : y;
}
