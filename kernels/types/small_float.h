// Floats of a sign, e exponent bits and m mantissa bits, for types of users: 1 <= m <= 22,
// 2 <= e <= 8. With `infinities` the largest exponent holds the infinities and NaN, as in IEEE 754.
// Without them only the code of ones is NaN (OCP E4M3), and larger values become the largest one.
DEVICE_FN float small_float_value(u32 code, i32 e, i32 m, i32 infinities) {
  const i32 bias = (1 << (e - 1)) - 1;
  const u32 ones = (1u << (e + m)) - 1u, bits = code & ones;
  const u32 sign = ((code >> (e + m)) & 1u) << 31, top = ones >> m << m;
  const float subnormal = (float)(i32)bits * as_f32((u32)(128 - bias - m) << 23 & 0x7f800000u);
  const u32 normal = (bits << (23 - m)) + ((u32)(127 - bias) << 23);
  const u32 special = 0x7f800000u | (bits - top) << (23 - m);
  // With 8 exponent bits, subnormal numbers are those of float.
  const u32 value = bits < 1u << m && e < 8 ? as_u32(subnormal) : normal;
  return as_f32(sign | (infinities ? (bits >= top ? special : value)
                                   : bits == ones ? 0x7fc00000u : value));
}
// Rounds to nearest, ties to even.
DEVICE_FN u32 small_float_code(float v, i32 e, i32 m, i32 infinities) {
  const i32 bias = (1 << (e - 1)) - 1;
  const u32 bits = as_u32(v), size = bits & 0x7fffffffu, sign = bits >> 31 << (e + m);
  const u32 ones = (1u << (e + m)) - 1u, top = ones >> m << m;
  const u32 least = (u32)(128 - bias) << 23;  // the smallest normal number
  // The sum has the distance of subnormal numbers between its neighbours.
  const u32 magic = (u32)(151 - bias - m) << 23;
  const u32 subnormal = as_u32(as_f32(size) + as_f32(magic)) - magic;
  const u32 shift = (u32)(23 - m), tie = (1u << (shift - 1)) - 1u;
  const u32 normal = (size - least + tie + ((size >> shift) & 1u)) >> shift;
  const u32 rounded = size < least ? subnormal : normal + (1u << m);
  const u32 most = infinities ? top : ones - 1u;
  const u32 nan = infinities ? top | 1u << (m - 1) : ones;
  return sign | (size > 0x7f800000u ? nan : rounded > most ? most : rounded);
}
