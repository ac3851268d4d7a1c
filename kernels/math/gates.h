// The functions of gates, for kernels whose groups exchange what they compute (step_sums.h): other
// groups wait for them. In half kinds these are instructions of the device, with errors below 2^-20
// of the result, of which rounding keeps 2^-11.
#if UNITS_MULTIPLY && ELEMENT_BYTES == 2
DEVICE_FN float gate_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}
DEVICE_FN float gate_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE_FN float gate_sigmoid(float x) { return gate_inverse(1.0f + gate_exp(-x)); }
// Around 0 the polynomial of tanh_f32, for small results.
DEVICE_FN float gate_tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float far = 1.0f - 2.0f * gate_inverse(gate_exp(x + x) + 1.0f);
  return z < 0.390625f ? p * z * x + x : far;
}
#else
#include "epilogue/sigmoid.h"
#define gate_sigmoid(x) sigmoid_value(x)
#define gate_tanh(x) TANH(x)
#endif
