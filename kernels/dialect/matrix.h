#include "dialect/codes.h"
#include "math/word_order.h"
// Words for products of bytes in local memory by warps, 32 neighbouring work items that share the
// sums of tiles of 16 x 8. Item `lane` has 4 of them: rows lane / 4 and lane / 4 + 8, columns
// lane % 4 * 2 and the next. A tile of operands has rows of TILE_K bytes, a multiple of 64, in
// chunks of 16 bytes; TILE_AT is the place of a chunk. Rows of A are rows of the result, rows of B
// its columns. With MATRIX_UNITS these are matrix instructions (1: NVIDIA, sm_80 and later, in CUDA
// and in OpenCL; 2: also those of warpgroups, sm_90a in CUDA), otherwise loops that compute the
// same integers.
//
// Where 8 neighbouring rows have the same chunk, it lies in 8 different places modulo 128 bytes, so
// that they are read at once.
#define TILE_AT(row, chunk) \
  ((row) * TILE_K + (((chunk) ^ (TILE_K == 64 ? (row) >> 1 & 3 : (row) & 7)) << 4))

#if MATRIX_UNITS
#ifdef __OPENCL_VERSION__
DEVICE_FN u32 local_address(LOCAL_PTR const u8* p) { return (u32)(u64)p; }
#else
DEVICE_FN u32 local_address(const u8* p) {
  u32 address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(p));
  return address;
}
#endif
// Copies of 4, 8 or 16 bytes that may finish later: COPY_END ends a set of copies, and
// COPY_WAIT(n) waits until at most the last n sets are not finished.
#define COPY_BYTES(to, from, bytes)                                                      \
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"                               \
               :                                                                         \
               : "r"(local_address(to)), "l"((u64)(from)), "n"(bytes))
#define COPY_CHUNK(to, from)                                                             \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(local_address(to)), "l"((u64)(from)))
// The same; 0 instead of what is not `inside`. An address outside is not read.
#define COPY_INSIDE_(cache, to, from, bytes, inside)                                     \
  asm volatile("cp.async." cache ".shared.global [%0], [%1], %2, %3;"                    \
               :                                                                         \
               : "r"(local_address(to)), "l"((u64)(from)), "n"(bytes), "r"((inside) ? (bytes) : 0))
#define COPY_INSIDE(to, from, bytes, inside) COPY_INSIDE_("ca", to, from, bytes, inside)
#define COPY_CHUNK_INSIDE(to, from, inside) COPY_INSIDE_("cg", to, from, 16, inside)
#define COPY_END asm volatile("cp.async.commit_group;")
#define COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" : : "n"(n))

DEVICE_FN void load_matrices(u32* f, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(address));
}
// 16 rows of two chunks of A, or of B, whose rows are the columns of two tiles.
DEVICE_FN void load_rows(u32* f, LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 lane) {
  const i32 r = row + (lane >> 3 & 1) * 8 + (lane & 7);
  load_matrices(f, local_address(tile + TILE_AT(r, chunk + (lane >> 4))));
}
DEVICE_FN void load_columns(u32* f, LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 lane) {
  const i32 r = row + (lane >> 4) * 8 + (lane & 7);
  load_matrices(f, local_address(tile + TILE_AT(r, chunk + (lane >> 3 & 1))));
}
#define MULTIPLY_BYTES_(name, types)                                                     \
  DEVICE_FN void name(i32* sum, const u32* a, const u32* b) {                            \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types                          \
                 ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));    \
  }
MULTIPLY_BYTES_(multiply_u8_s8, "u8.s8")
MULTIPLY_BYTES_(multiply_u8_u8, "u8.u8")
// Low and high bytes of 32 codes of 16 bits, which load_rows read from four chunks. Their order is
// that of packed weights, see WORD_PLACE.
DEVICE_FN void split_words(u32* low, u32* high, const u32* f) {
  UNROLL for (i32 i = 0; i < 4; ++i) {
    const i32 from = (i >> 1) * 4 + (i & 1);
    low[i] = permute_bytes(f[from], f[from + 2], 0x6420);
    high[i] = permute_bytes(f[from], f[from + 2], 0x7531);
  }
}
#if MATRIX_UNITS == 2
// Products of 64 rows by all columns of B at once, by a warpgroup of 4 warps, of which each has the
// sums of 16 rows. Operands stay in local memory, or those of A are what load_rows read; the order
// of chunks is one that these instructions know. GROUP_BEGIN comes before the first product of a
// step, GROUP_END(n) behind the last one: it waits until at most the last n steps are not finished.
#define GROUP_BEGIN asm volatile("wgmma.fence.sync.aligned;" : : : "memory")
#define GROUP_END(n)                                                                     \
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned %0;"     \
               :                                                                         \
               : "n"(n)                                                                  \
               : "memory")
// Makes what this item wrote to local memory visible to products, after COPY_WAIT; empty without
// warpgroups.
#define GROUP_SEES asm volatile("fence.proxy.async.shared::cta;" : : : "memory")
// Rows of TILE_K bytes: the distance of 8 rows, and the order of chunks (1: 128 bytes, 2: 64).
DEVICE_FN u64 tile_descriptor(const u8* tile) {
  return (u64)(local_address(tile) >> 4) | (u64)1 << 16 | (u64)(8 * TILE_K >> 4) << 32 |
         (u64)(TILE_K == 128 ? 1 : 2) << 62;
}
// The tiles hold floats (dialect/matrix_floats.h), or bytes.
#ifdef ELEMENT_BYTES
#define GroupSum float
#define GROUP_SUM_ "+f"
#define GROUP_DEPTH_ "k16.f32."
#if BFLOAT
#define GROUP_TYPES_ "bf16.bf16"
#else
#define GROUP_TYPES_ "f16.f16"
#endif
#define GROUP_SHARED_END_ ", 1, 1, 0, 0;"
#else
#define GroupSum i32
#define GROUP_SUM_ "+r"
#define GROUP_DEPTH_ "k32.s32."
#define GROUP_TYPES_ "u8.s8"
#define GROUP_SHARED_END_ ";"
#endif
#define SUMS_4_(s, i)                                                                    \
  GROUP_SUM_(s[i]), GROUP_SUM_(s[i + 1]), GROUP_SUM_(s[i + 2]), GROUP_SUM_(s[i + 3])
#define SUMS_16_(s, i) SUMS_4_(s, i), SUMS_4_(s, i + 4), SUMS_4_(s, i + 8), SUMS_4_(s, i + 12)
#define NAMES_0_ "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_16_ ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_32_ ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES_48_ ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#if TILE_N == 128
#define GROUP_SUMS_ SUMS_16_(sum, 0), SUMS_16_(sum, 16), SUMS_16_(sum, 32), SUMS_16_(sum, 48)
#define GROUP_(types, a, b, one, end)                                                    \
  GROUP_PRODUCT_("n128", types, NAMES_0_ NAMES_16_ NAMES_32_ NAMES_48_, a, b, one, end)
#define GROUP_SHARED_(types) GROUP_(types, "%64", "%65", "%66", GROUP_SHARED_END_)
#define GROUP_REGISTERS_(types) GROUP_(types, "{%64,%65,%66,%67}", "%68", "%69", ";")
#elif TILE_N == 96
#define GROUP_SUMS_ SUMS_16_(sum, 0), SUMS_16_(sum, 16), SUMS_16_(sum, 32)
#define GROUP_(types, a, b, one, end)                                                    \
  GROUP_PRODUCT_("n96", types, NAMES_0_ NAMES_16_ NAMES_32_, a, b, one, end)
#define GROUP_SHARED_(types) GROUP_(types, "%48", "%49", "%50", GROUP_SHARED_END_)
#define GROUP_REGISTERS_(types) GROUP_(types, "{%48,%49,%50,%51}", "%52", "%53", ";")
#elif TILE_N == 32
#define GROUP_SUMS_ SUMS_16_(sum, 0)
#define GROUP_(types, a, b, one, end) GROUP_PRODUCT_("n32", types, NAMES_0_, a, b, one, end)
#define GROUP_SHARED_(types) GROUP_(types, "%16", "%17", "%18", GROUP_SHARED_END_)
#define GROUP_REGISTERS_(types) GROUP_(types, "{%16,%17,%18,%19}", "%20", "%21", ";")
#else
#define GROUP_SUMS_ SUMS_16_(sum, 0), SUMS_16_(sum, 16)
#define GROUP_(types, a, b, one, end)                                                    \
  GROUP_PRODUCT_("n64", types, NAMES_0_ NAMES_16_, a, b, one, end)
#define GROUP_SHARED_(types) GROUP_(types, "%32", "%33", "%34", GROUP_SHARED_END_)
#define GROUP_REGISTERS_(types) GROUP_(types, "{%32,%33,%34,%35}", "%36", "%37", ";")
#endif
#define GROUP_PRODUCT_(columns, types, names, a, b, one, end)                            \
  "{ .reg .pred p; setp.ne.b32 p, " one ", 0; wgmma.mma_async.sync.aligned.m64" columns  \
  GROUP_DEPTH_ types " " names "}, " a ", " b ", p" end " }"
// sum [columns / 8][4] += products of 32 bytes; without `more` it becomes these.
DEVICE_FN void multiply_group(GroupSum* sum, u64 a, u64 b, i32 more) {
  asm volatile(GROUP_SHARED_(GROUP_TYPES_) : GROUP_SUMS_ : "l"(a), "l"(b), "r"(more));
}
#ifndef ELEMENT_BYTES
#define MULTIPLY_GROUP_(name, types)                                                     \
  DEVICE_FN void name(i32* sum, const u32* a, u64 b) {                                   \
    asm volatile(GROUP_REGISTERS_(types)                                                 \
                 : GROUP_SUMS_                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));          \
  }
MULTIPLY_GROUP_(multiply_group_u8_s8, "u8.s8")
MULTIPLY_GROUP_(multiply_group_u8_u8, "u8.u8")
#endif
#endif
// sum += the products of 32 bytes of A (u8) and B (s8).
#define MULTIPLY_BYTES(sum, a, tile_a, b, tile_b, lane) multiply_u8_s8(sum, a, b)
// The same for 32 codes of 16 bits: high, middle and low += products of bytes. f is what load_rows
// read from four chunks; low_b and high_b are chunks of weights.
#define MULTIPLY_WORDS(high, middle, low, f, low_a, high_a, tile_a, low_b, high_b, tile_b, lane) \
  multiply_u8_s8(high, high_a, high_b);                                                  \
  multiply_u8_s8(middle, low_a, high_b);                                                 \
  multiply_u8_u8(middle, high_a, low_b);                                                 \
  multiply_u8_u8(low, low_a, low_b)
#else
#define COPY_BYTES(to, from, bytes) \
  for (i32 byte_ = 0; byte_ < (bytes); ++byte_) (to)[byte_] = (from)[byte_]
#define COPY_CHUNK(to, from) COPY_BYTES(to, from, 16)
#define COPY_INSIDE(to, from, bytes, inside) \
  for (i32 byte_ = 0; byte_ < (bytes); ++byte_) (to)[byte_] = (inside) ? (from)[byte_] : 0
#define COPY_CHUNK_INSIDE(to, from, inside) COPY_INSIDE(to, from, 16, inside)
#define COPY_END
#define COPY_WAIT(n)
// The loaded value is a place: row and chunk.
DEVICE_FN void load_rows(u32* f, LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 lane) {
  f[0] = row;
  f[1] = chunk;
}
DEVICE_FN void load_columns(u32* f, LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 lane) {
  f[0] = row;
  f[2] = row + 8;
  f[1] = f[3] = chunk;
}
DEVICE_FN void split_words(u32* low, u32* high, const u32* f) {}
DEVICE_FN i32 tile_byte(LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 byte) {
  return tile[TILE_AT(row, chunk + (byte >> 4)) + (byte & 15)];
}
#define MULTIPLY_BYTES(sum, a, tile_a, b, tile_b, lane)                                  \
  for (i32 e_ = 0; e_ < 4; ++e_) {                                                       \
    const i32 row_ = (a)[0] + (lane) / 4 + e_ / 2 * 8, column_ = (b)[0] + (lane) % 4 * 2 + e_ % 2; \
    for (i32 i_ = 0; i_ < 32; ++i_) {                                                    \
      (sum)[e_] += tile_byte(tile_a, row_, (a)[1], i_) *                                 \
                   (i32)(i8)tile_byte(tile_b, column_, (b)[1], i_);                      \
    }                                                                                    \
  }
#define MULTIPLY_WORDS(high, middle, low, f, low_a, high_a, tile_a, low_b, high_b, tile_b, lane) \
  for (i32 e_ = 0; e_ < 4; ++e_) {                                                       \
    const i32 row_ = (f)[0] + (lane) / 4 + e_ / 2 * 8;                                   \
    const i32 column_ = (low_b)[0] + (lane) % 4 * 2 + e_ % 2;                            \
    for (i32 i_ = 0; i_ < 32; ++i_) {                                                    \
      const i32 x0_ = tile_byte(tile_a, row_, (f)[1], 2 * i_);                           \
      const i32 x1_ = tile_byte(tile_a, row_, (f)[1], 2 * i_ + 1);                       \
      const i32 w0_ = tile_byte(tile_b, column_, (low_b)[1], WORD_PLACE(i_));            \
      const i32 w1_ = (i32)(i8)tile_byte(tile_b, column_, (high_b)[1], WORD_PLACE(i_));  \
      (high)[e_] += x1_ * w1_;                                                           \
      (middle)[e_] += x0_ * w1_ + x1_ * w0_;                                             \
      (low)[e_] += x0_ * w0_;                                                            \
    }                                                                                    \
  }
#endif
#if MATRIX_UNITS != 2
#define GROUP_SEES
#endif
