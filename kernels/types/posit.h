// Posits of n <= 32 bits with es exponent bits (Posit Standard 2022, where es is 2), for types of
// users. The regime is a run of equal bits. Negative numbers are two's complements; 100...0 is NaR.
// Values are rounded to float, ties to even, if they have more than 24 significant bits.
DEVICE_FN float posit_value(u32 code, i32 n, i32 es) {
  const u32 mask = 0xffffffffu >> (32 - n), nar = 1u << (n - 1), c = code & mask;
  if (c == 0u || c == nar) return as_f32(c ? 0x7fc00000u : 0u);
  const u32 size = c & nar ? (0u - c) & mask : c;
  const u32 x = size << (33 - n), ones = x >> 31;
  u32 y = ones ? ~x : x;
  i32 run = 0;
  while (run < n - 1 && !(y & 0x80000000u)) {
    y <<= 1;
    ++run;
  }
  const u32 rest = x << run << 1, fraction = rest << es, lost = fraction & 511u;
  const i32 exponent = (ones ? run - 1 : -run) * (1 << es) + (es ? (i32)(rest >> (32 - es)) : 0);
  u32 bits = (u32)(exponent + 127) << 23 | fraction >> 9;
  bits += lost > 256u || (lost == 256u && (bits & 1u)) ? 1u : 0u;
  return as_f32(bits | (c & nar ? 0x80000000u : 0u));
}
// Rounds the string of bits to nearest, ties to even. Only 0 becomes 0, and only infinities and NaN
// become NaR.
DEVICE_FN u32 posit_code(float v, i32 n, i32 es) {
  const u32 bits = as_u32(v), size = bits & 0x7fffffffu;
  const u32 mask = 0xffffffffu >> (32 - n), nar = 1u << (n - 1), most = nar - 1u;
  if (size == 0u || size >= 0x7f800000u) return size ? nar : 0u;
  const i32 exponent = (i32)(size >> 23) - 127, lift = 128 >> es;
  const i32 k = (exponent + 128) / (1 << es) - lift, e = exponent - k * (1 << es);
  u32 code = most;
  if (k < 2 - n) {
    code = 1u;
  } else if (k < n - 2) {
    const i32 length = k < 0 ? 1 - k : k + 2;
    const u64 regime = k < 0 ? 1u : ((1u << (k + 1)) - 1u) << 1;
    const u64 whole = ((regime << es) + (u64)e) << 23 | (u64)(size & 0x7fffffu);
    const i32 drop = length + es + 23 - (n - 1);
    if (drop <= 0) {
      code = (u32)(whole << -drop);
    } else {
      const u64 rest = whole & (((u64)1 << drop) - 1u), tie = (u64)1 << (drop - 1);
      code = (u32)(whole >> drop);
      code += rest > tie || (rest == tie && (code & 1u)) ? 1u : 0u;
      code = code > most ? most : code < 1u ? 1u : code;
    }
  }
  return bits >> 31 ? (0u - code) & mask : code;
}
