// Words that mean the same in C++20, OpenCL C 1.2 and CUDA C. Comes after host.h, opencl.h or
// cuda.h and before the files of types/.
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define STORAGE(T) CAT(storage_, T)
#define LOAD(T, p, i) CAT(load_, T)(p, AT(p, i), p##_zero)
#define STORE(T, p, i, v) CAT(store_, T)(p, AT(p, i), p##_zero, v)
// The address of element i, as bytes, for accesses to several elements at once on devices.
#define BYTES_AT(p, i) ((GLOBAL const u8*)((p) + AT(p, i)))
#define Acctype CAT(acc_, Dtype)
#define Scaletype CAT(scale_, Dtype)
// The type of masters and of partial sums, for float kinds; LOAD and STORE accept it.
#define Mastertype CAT(master_, Dtype)
#define LOWEST CAT(lowest_, Dtype)
#define REAL(x) CAT(real_, Dtype)(x)
// v * s: a product for float kinds, one requantization for quantized ones.
#define SCALE(v, s) CAT(mul_, Dtype)(v, s)
// Multiplies by the ratio of an input's and an output's scale; the identity for float kinds.
#define RESCALE(v, s) CAT(rescale_, Dtype)(v, s)
#define EXP(v) CAT(exp_, Dtype)(v)
#define LOG(v) CAT(log_, Dtype)(v)
#define POW(v, w) CAT(pow_, Dtype)(v, w)
#define EXPM1(v) CAT(expm1_, Dtype)(v)
#define TANH(v) CAT(tanh_, Dtype)(v)
#define SQRT(v) CAT(sqrt_, Dtype)(v)
// Converts a real number in units of the scale to code - zero: clamp, then round half away from
// zero. NaN yields 0. Without branches, so that compilers vectorise it.
#define code_from_real(v, low, high) \
  (CAT(round_, Dtype)((v) > (low) ? (v) < (high) ? (v) : (high) : (low)) * ((v) == (v)))

typedef struct {
  i32 multiplier;
  i32 shift;
} Requant;

DEVICE_FN i32 clamp_i32(i32 v, i32 low, i32 high) { return v < low ? low : v > high ? high : v; }
