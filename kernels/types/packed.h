// A type of a user on the CPU with two codes in a byte, the first one in the lower bits. It has the
// table of types/table.h. Another thread may write the other code of a byte, and vectors would lose
// one of two: atomic operations keep loops that store from being vectorised.
DEVICE_FN float load_c4(const u8* p, i64 i, const u32* table) {
  return as_f32(table[(u32)p[i >> 1] >> ((u32)i & 1u) * 4u & 15u]);
}
DEVICE_FN void store_c4(u8* p, i64 i, const u32* table, float v) {
  u8 code;
  store_c8(&code, 0, table, v);
  const u32 shift = ((u32)i & 1u) * 4u;
  __atomic_fetch_and(&p[i >> 1], (u8)(0xf0u >> shift), __ATOMIC_RELAXED);
  __atomic_fetch_or(&p[i >> 1], (u8)((u32)code << shift), __ATOMIC_RELAXED);
}
typedef u8 storage_c4;
typedef const u32* zero_c4;
typedef float acc_c4;
typedef float scale_c4;
#define master_c4 f32
#define lowest_c4 lowest_f32
#define real_c4 real_f32
#define mul_c4 mul_f32
#define exp_c4 exp_f32
#define log_c4 log_f32
#define pow_c4 pow_f32
#define expm1_c4 expm1_f32
#define tanh_c4 tanh_f32
#define sqrt_c4 sqrt_f32
#define rescale_c4(v, s) (v)
#define from_real_c4(v, low, high) CAT(round_to_odd_, Dtype)(v)
