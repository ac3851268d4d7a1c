// Words for codes. With MATRIX_UNITS they are single instructions of NVIDIA's devices, otherwise
// what these compute. With DOT_BYTES the products of bytes are one instruction also without
// matrix units.
#if MATRIX_UNITS
DEVICE_FN u32 permute_bytes(u32 a, u32 b, u32 places) {
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(places));
  return r;
}
// Integers bounded by 0 and 255, or 65535, as bytes or pairs of bytes of a word, the first one
// lowest.
DEVICE_FN u32 pack_bytes(i32 a, i32 b, i32 c, i32 d) {
  u32 r;
  asm("{ .reg .b32 h; cvt.pack.sat.u8.s32.b32 h, %4, %3, 0; "
      "cvt.pack.sat.u8.s32.b32 %0, %2, %1, h; }"
      : "=r"(r)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return r;
}
DEVICE_FN u32 pack_shorts(i32 a, i32 b) {
  u32 r;
  asm("cvt.pack.sat.u16.s32 %0, %2, %1;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
#else
DEVICE_FN u32 permute_bytes(u32 a, u32 b, u32 places) {
  const u64 both = (u64)b << 32 | a;
  u32 r = 0;
  for (i32 i = 0; i < 4; ++i) r |= (u32)(both >> (places >> 4 * i & 7) * 8 & 255) << 8 * i;
  return r;
}
DEVICE_FN u32 pack_bytes(i32 a, i32 b, i32 c, i32 d) {
  return (u32)clamp_i32(a, 0, 255) | (u32)clamp_i32(b, 0, 255) << 8 |
         (u32)clamp_i32(c, 0, 255) << 16 | (u32)clamp_i32(d, 0, 255) << 24;
}
DEVICE_FN u32 pack_shorts(i32 a, i32 b) {
  return (u32)clamp_i32(a, 0, 65535) | (u32)clamp_i32(b, 0, 65535) << 16;
}
#endif
// sum + the products of four bytes of a (u8) and b (s8).
DEVICE_FN i32 add_byte_products(i32 sum, u32 a, u32 b) {
#if DOT_BYTES && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
  return sum + dot_4x8packed_us_int(a, b);
#elif MATRIX_UNITS || (DOT_BYTES && (defined(__NV_CL_C_VERSION) || defined(__CUDACC_RTC__)))
  i32 r;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
  return r;
#else
  for (i32 i = 0; i < 32; i += 8) sum += (i32)(a >> i & 255) * (i32)(i8)(b >> i & 255);
  return sum;
#endif
}
// columns[i] are bytes i of the rows.
DEVICE_FN void transpose_bytes(u32* columns, const u32* rows) {
  const u32 low0 = permute_bytes(rows[0], rows[1], 0x5140);
  const u32 low1 = permute_bytes(rows[2], rows[3], 0x5140);
  const u32 high0 = permute_bytes(rows[0], rows[1], 0x7362);
  const u32 high1 = permute_bytes(rows[2], rows[3], 0x7362);
  columns[0] = permute_bytes(low0, low1, 0x5410);
  columns[1] = permute_bytes(low0, low1, 0x7632);
  columns[2] = permute_bytes(high0, high1, 0x5410);
  columns[3] = permute_bytes(high0, high1, 0x7632);
}
