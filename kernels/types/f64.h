typedef double storage_f64;
typedef double acc_f64;
typedef double scale_f64;
#define master_f64 f64
#define lowest_f64 (-1.7976931348623157e+308)
#define real_f64(x) x
DEVICE_FN double load_f64(GLOBAL const double* p, i64 i, i32 zero) { return p[i]; }
DEVICE_FN void store_f64(GLOBAL double* p, i64 i, i32 zero, double v) { p[i] = v; }
DEVICE_FN double mul_f64(double v, double s) { return v * s; }
#define exp_f64 EXP_F64
#define log_f64 LOG_F64
#define pow_f64 POW_F64
#define expm1_f64 EXPM1_F64
#define tanh_f64 TANH_F64
#define sqrt_f64 SQRT_F64
#define rescale_f64(v, s) (v)
#define from_real_f64(v, low, high) (v)
// Rounds to odd, for a second rounding to a narrower type: two roundings to nearest can be wrong.
DEVICE_FN float round_to_odd_f64(double v) {
  const float nearest = (float)v;
  const u32 bits = as_u32(nearest);
  const i32 away = (v > 0) == ((double)nearest > v) && (bits & 0x7fffffffu) != 0;
  return (double)nearest == v || v != v ? nearest : as_f32((away ? bits - 1u : bits) | 1u);
}
DEVICE_FN i32 round_f64(double v) {
  const i32 whole = (i32)v;
  const double rest = v - (double)whole;
  return whole + (rest >= 0.5) - (rest <= -0.5);
}
#ifdef SPAN
SPAN_BY_ELEMENTS(f64)
#endif
