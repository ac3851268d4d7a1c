typedef u16 storage_bf16;
typedef float acc_bf16;
typedef float scale_bf16;
#define master_bf16 f32
#define lowest_bf16 (-3.402823466e+38f)
#define real_bf16(x) x##f
DEVICE_FN float load_bf16(GLOBAL const u16* p, i64 i, i32 zero) { return as_f32((u32)p[i] << 16); }
DEVICE_FN void store_bf16(GLOBAL u16* p, i64 i, i32 zero, float v) {
  const u32 b = as_u32(v), r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  p[i] = (u16)((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : r);
}
DEVICE_FN float mul_bf16(float v, float s) { return v * s; }
#define exp_bf16 exp_f32
#define log_bf16 log_f32
#define pow_bf16 pow_f32
#define expm1_bf16 expm1_f32
#define tanh_bf16 tanh_f32
#define sqrt_bf16 sqrt_f32
#define rescale_bf16(v, s) (v)
#define from_real_bf16(v, low, high) CAT(round_to_odd_, Dtype)(v)
