// A type of a user with more than 16 bits on the CPU, where its functions are compiled at run time.
// A pointer argument comes with the functions of its type; host.h declares the vector forms, which
// loops of FOR_EACH call for several elements at once.
DEVICE_FN float load_c32(const u32* p, i64 i, const HostTypeFunctions* functions) {
  return CAFFE_TYPE_VALUE(functions, p[i]);
}
DEVICE_FN void store_c32(u32* p, i64 i, const HostTypeFunctions* functions, float v) {
  p[i] = CAFFE_TYPE_CODE(functions, v);
}
typedef u32 storage_c32;
typedef const HostTypeFunctions* zero_c32;
typedef float acc_c32;
typedef float scale_c32;
#define master_c32 f32
#define lowest_c32 lowest_f32
#define real_c32 real_f32
#define mul_c32 mul_f32
#define exp_c32 exp_f32
#define log_c32 log_f32
#define pow_c32 pow_f32
#define expm1_c32 expm1_f32
#define tanh_c32 tanh_f32
#define sqrt_c32 sqrt_f32
#define rescale_c32(v, s) (v)
#define from_real_c32(v, low, high) CAT(round_to_odd_, Dtype)(v)
