// Elementary functions in float from basic operations only. With contraction off they give the same
// bits on every device; vendors' libraries differ. Polynomials: Cephes, single precision.

// The integer k of a sum k + 1.5 * 2^23, which rounds to the nearest one. NaN has no such integer,
// and a cast of it is undefined: the result is then some integer.
DEVICE_FN i32 shifted_integer(float sum) { return (i32)(as_u32(sum) - 0x4b400000u); }

DEVICE_FN float exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  // 2^k in two factors, so that overflow and underflow at the ends of the range are correct.
  const i32 n = shifted_integer(shifted), half_n = n >> 1;
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

// The upper 12 bits of a significand: products of two such values are exact.
DEVICE_FN float upper_f32(float v) { return as_f32(as_u32(v) & 0xfffff000u); }

// x^y with the special cases of C: exp(y log x), where log x and its product with y are sums of two
// floats each. log m = 2 atanh(s), s = (m - 1) / (m + 1). The error is below one unit in the last
// place for results around 1 and below four at the ends of the range.
DEVICE_FN float pow_f32(float x, float y) {
  const float inf = as_f32(0x7f800000u), a = x < 0.0f ? -x : x;
  const i32 tiny = a < 1.17549435e-38f;
  const u32 bits = as_u32(tiny ? a * 33554432.0f : a);
  i32 e = (i32)((bits >> 23) & 0xffu) - 126 - (tiny ? 25 : 0);
  float m = as_f32((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const i32 low = m < 0.707106781f;
  e = low ? e - 1 : e;
  m = low ? m + m : m;  // [sqrt 1/2, sqrt 2)
  const float f = m - 1.0f, g = m + 1.0f, g_high = upper_f32(g), g_low = m - (g_high - 1.0f);
  const float s_high = upper_f32(f / g);
  const float s_low = ((f - s_high * g_high) - s_high * g_low) / g;
  const float s = s_high + s_low, z = s * s;
  float p = 1.81818182e-1f;
  p = p * z + 2.22222222e-1f;
  p = p * z + 2.85714286e-1f;
  p = p * z + 4.0e-1f;
  p = p * z + 6.66666667e-1f;
  // log x = sum + rest = log_high + log_low, where log_high has 12 bits.
  const float n = (float)e, whole = n * 0.693359375f, twice = s_high + s_high;
  const float sum = whole + twice;
  const float rest = ((s_low + s_low) + (s * (z * p) + n * -2.12194440e-4f)) +
                     (e == 0 ? 0.0f : twice - (sum - whole));
  const float log_high = upper_f32(sum + rest), log_low = rest - (log_high - sum);
  // Beyond |y| = 2^32 only 1^y is finite and not 0.
  const float b = y > 4294967296.0f ? 4294967296.0f : y < -4294967296.0f ? -4294967296.0f : y;
  const float b_high = upper_f32(b), large = b_high * log_high;
  const float small = (b - b_high) * log_high + b * log_low;
  float q = large + small;
  float q_low = small - (q - large);
  q_low = (q > 89.0f) | (q < -104.0f) ? 0.0f : q_low;
  q = q < -104.0f ? -104.0f : q > 89.0f ? 89.0f : q;
  const float shifted = q * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
  const float r = (q - k * 0.693359375f) + (k * 2.12194440e-4f + q_low);
  float t = 1.9875691500e-4f;
  t = t * r + 1.3981999507e-3f;
  t = t * r + 8.3334519073e-3f;
  t = t * r + 4.1665795894e-2f;
  t = t * r + 1.6666665459e-1f;
  t = t * r + 5.0000001201e-1f;
  const i32 scale = shifted_integer(shifted), half_scale = scale >> 1;
  float v = (t * r * r + r) + 1.0f;
  v = v * as_f32((u32)(half_scale + 127) << 23) * as_f32((u32)(scale - half_scale + 127) << 23);
  v = a == inf ? (y > 0.0f ? inf : 0.0f) : a == 0.0f ? (y > 0.0f ? 0.0f : inf) : v;
  v = a == 1.0f ? 1.0f : v;
  // From 2^24 on every float is an even integer.
  const float c = y < 0.0f ? -y : y;
  const i32 integer_y = c < 16777216.0f ? (i32)c : 0;
  const i32 whole_y = (c >= 16777216.0f) | ((float)integer_y == c);
  const i32 odd = whole_y & integer_y & 1;
  v = (as_u32(x) >> 31) & (u32)odd ? -v : v;
  const i32 unreal = (x < 0.0f) & (x > -inf) & !whole_y;
  v = unreal | (x != x) | (y != y) ? as_f32(0x7fc00000u) : v;
  return (y == 0.0f) | (x == 1.0f) ? 1.0f : v;
}

// e^x - 1, accurate to its last digits around 0, too. The polynomial is that of exp_f32.
DEVICE_FN float expm1_f32(float x) {
  const float c = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const float shifted = c * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
  const float r = (c - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r;
  // Beyond |k| = 24 either 2^k or 1 is negligible: exp_f32(x) - 1 is accurate.
  const i32 n = shifted_integer(shifted), outside = n > 24 || n < -24;
  const float two_k = as_f32((u32)((outside ? 0 : n) + 127) << 23);
  return x != x ? x : outside ? exp_f32(x) - 1.0f : two_k * y + (two_k - 1.0f);
}

// Polynomial of Cephes around 0, else 1 - 2 / (e^2x + 1).
DEVICE_FN float tanh_f32(float x) {
  const float a = x < 0.0f ? -x : x, z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near_0 = p * z * x + x;
  const float far = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return x != x ? x : a < 0.625f ? near_0 : x < 0.0f ? -far : far;
}
