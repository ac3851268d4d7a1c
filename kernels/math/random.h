// Philox 4x32-10 (Salmon et al., SC 2011): a counter-based generator. A counter gives four words,
// the same on every device. So a mask is a function of (seed, counter) and needs no state.
typedef struct {
  u32 v0, v1, v2, v3;
} Random4;

DEVICE_FN Random4 philox(u64 counter, u64 seed) {
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  Random4 out;
  for (i32 round = 0; round < 10; ++round) {
    const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    const u32 n0 = (u32)(b >> 32) ^ c1 ^ k0, n2 = (u32)(a >> 32) ^ c3 ^ k1;
    c1 = (u32)b;
    c3 = (u32)a;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out.v0 = c0;
  out.v1 = c1;
  out.v2 = c2;
  out.v3 = c3;
  return out;
}
