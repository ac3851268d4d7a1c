// A type of a user on the CPU: a table of its values, and one of the codes that floats are rounded
// to. A pointer argument comes with the tables of its type; caffe/core/value_table.hpp has their
// layout. The upper 16 bits of a float select a row, further bits an entry of the row. In an entry
// the code changes at most once.
DEVICE_FN float load_c8(const u8* p, i64 i, const u32* table) { return as_f32(table[p[i]]); }
DEVICE_FN void store_c8(u8* p, i64 i, const u32* table, float v) {
  const u32 bits = as_u32(v), low = bits & 0xffffu, row = table[256 + (i32)(bits >> 16)];
  const u32 shift = row & 31u, entry = table[(i32)((row >> 5) + (low >> shift))];
  const u32 rest = low & ((1u << shift) - 1u);
  p[i] = (u8)(rest < entry >> 16 ? entry >> 8 : entry);
}
DEVICE_FN float load_c16(const u16* p, i64 i, const u32* table) { return as_f32(table[p[i]]); }
DEVICE_FN void store_c16(u16* p, i64 i, const u32* table, float v) {
  const u32 bits = as_u32(v), low = bits & 0xffffu, row = table[65536 + (i32)(bits >> 16)];
  const u32 shift = row & 31u;
  const i32 at = (i32)((row >> 5) + 2u * (low >> shift));
  const u32 codes = table[at], rest = low & ((1u << shift) - 1u);
  p[i] = (u16)(rest < table[at + 1] ? codes >> 16 : codes);
}
typedef u8 storage_c8;
typedef u16 storage_c16;
typedef const u32* zero_c8;
typedef const u32* zero_c16;
typedef float acc_c8;
typedef float acc_c16;
typedef float scale_c8;
typedef float scale_c16;
#define master_c8 f32
#define master_c16 f32
#define lowest_c8 lowest_f32
#define lowest_c16 lowest_f32
#define real_c8 real_f32
#define real_c16 real_f32
#define mul_c8 mul_f32
#define mul_c16 mul_f32
#define exp_c8 exp_f32
#define exp_c16 exp_f32
#define log_c8 log_f32
#define log_c16 log_f32
#define pow_c8 pow_f32
#define pow_c16 pow_f32
#define expm1_c8 expm1_f32
#define expm1_c16 expm1_f32
#define tanh_c8 tanh_f32
#define tanh_c16 tanh_f32
#define sqrt_c8 sqrt_f32
#define sqrt_c16 sqrt_f32
#define rescale_c8(v, s) (v)
#define rescale_c16(v, s) (v)
#define from_real_c8(v, low, high) CAT(round_to_odd_, Dtype)(v)
#define from_real_c16(v, low, high) CAT(round_to_odd_, Dtype)(v)
