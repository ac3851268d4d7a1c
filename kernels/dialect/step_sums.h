// Sums of the steps of a recurrent layer. In each step a work group needs, for ROWS rows of an
// array that the step before wrote, the products of a row's DEPTH elements with COLUMNS columns of
// the weights. The weights are the same in all steps.
//
// Defines: ROWS, COLUMNS, DEPTH, WEIGHT_AT(column, k), the index of a weight, COLUMN_IS_INSIDE,
// UNITS_MULTIPLY (1: matrix units multiply; Dtype is float, half or bfloat16), with it
// ELEMENT_BYTES, BFLOAT, ROWS a multiple of 16, COLUMNS of 8, and DEPTH one of 16 bytes.
//
// SUM_MEMORY and READ_WEIGHTS stand once in a kernel. STEP_SUMS(values, first, items, written)
// computes the sums of the rows from `first` on; all items of the group call it, and it ends with a
// barrier. TOTAL(v, values, first, row, column) then sets v to one of them. END_SUMS is a barrier
// behind the last use of the sums.
//
// Outside the sums, an item has OWN_UNITS neighbours. WRITE_UNITS(T, p, i, v) stores the neighbours
// v [OWN_UNITS] of a row that the next step reads. READ_UNITS(T, p, i) reads some, and UNITS_OF(v,
// word) then makes them numbers: what is read ahead is not waited for.
//
// With UNITS_MULTIPLY, groups exchange these rows while they run, all of them at the same time: the
// launch has no more groups than the device has compute units, and a group fits a compute unit.
// OpenCL promises no progress to groups that others wait for: other devices have no such groups.
// The bits of the array are all 1 before the launch. With `written`, a group reads a word until it
// is another one: words are written whole, and no value that is written has only ones. So no group
// waits for what it does not need, and none waits until its own writes are seen.
#if UNITS_MULTIPLY
// A warp, 32 neighbouring items, has every TEAMS-th part of CHUNK elements of the depth. Its
// weights stay in registers; each element of a row is read by one item of the group. Items read 16
// bytes at once: as both operands do so, the order of elements within a part does not matter.
#define TILE_K 64
#include "dialect/matrix_floats.h"
#define TEAMS (GROUP / 32)
#define OWN_ELEMENTS (16 / ELEMENT_BYTES)
#define CHUNK (4 * OWN_ELEMENTS)
#define CHUNKS ((DEPTH + CHUNK * TEAMS - 1) / (CHUNK * TEAMS))
// Rows of sums begin in different banks of local memory.
#define SUM_ROW (COLUMNS + (COLUMNS % 32 == 0 ? 8 : 0))
#define SUM_MEMORY LOCAL float sums_[TEAMS * ROWS * SUM_ROW]
#define FIRST_ELEMENT(chunk) \
  ((((chunk) * TEAMS + LOCAL_ID(0) / 32) * 4 + LOCAL_ID(0) % 4) * OWN_ELEMENTS)
#define ELEMENT_IS_INSIDE(k) (DEPTH % (CHUNK * TEAMS) == 0 || (k) < DEPTH)
#if ELEMENT_BYTES == 2
#define WEIGHT_WORD(column, k, w)                                                        \
  ((u32)weights[AT(weights, WEIGHT_AT(column, (k) + 2 * (w)))] |                         \
   (u32)weights[AT(weights, WEIGHT_AT(column, (k) + 2 * (w) + 1))] << 16)
#else
#define WEIGHT_WORD(column, k, w) as_u32(weights[AT(weights, WEIGHT_AT(column, (k) + (w)))])
#endif
#define READ_WEIGHTS                                                                     \
  u32 own_[CHUNKS][COLUMNS / 8][4];                                                      \
  UNROLL for (i32 c_ = 0; c_ < CHUNKS; ++c_) {                                           \
    const i32 k_ = FIRST_ELEMENT(c_);                                                    \
    UNROLL for (i32 j_ = 0; j_ < COLUMNS / 8; ++j_) {                                    \
      const i32 column_ = j_ * 8 + LOCAL_ID(0) % 32 / 4;                                 \
      const i32 inside_ = ELEMENT_IS_INSIDE(k_) && COLUMN_IS_INSIDE(column_);            \
      UNROLL for (i32 w_ = 0; w_ < 4; ++w_) {                                            \
        own_[c_][j_][w_] = inside_ ? WEIGHT_WORD(column_, k_, w_) : 0;                   \
      }                                                                                  \
    }                                                                                    \
  }
#if ELEMENT_BYTES == 2
// The products of the four words that an item has of two rows, and of a column.
DEVICE_FN void add_chunk(float* sum, const u32 (*a)[4], const u32* b) {
  multiply_parts(sum, a[0], b);
  multiply_parts(sum, a[1], b + 2);
}
#define SPLIT_ROWS(a, low_a)
#define ADD_CHUNK(sum, a, low_a, b) add_chunk(sum, a, b)
#else
// Floats are sums of two parts, see matrix_floats.h.
DEVICE_FN void add_chunk(float* sum, const u32 (*a)[4], const u32 (*low_a)[4], const u32* b) {
  float part[4] = {0, 0, 0, 0};
  u32 high_b[4] = {b[0], b[1], b[2], b[3]}, low_b[4];
  split_floats(high_b, low_b);
  UNROLL for (i32 p = 0; p < 2; ++p) {
    multiply_parts(part, low_a[p], high_b + 2 * p);
    multiply_parts(part, a[p], low_b + 2 * p);
    multiply_parts(part, a[p], high_b + 2 * p);
  }
  UNROLL for (i32 e = 0; e < 4; ++e) sum[e] += part[e];
}
#define SPLIT_ROWS(a, low_a)                                                             \
  u32 low_a[2][4];                                                                       \
  split_floats(a[0], low_a[0]);                                                          \
  split_floats(a[1], low_a[1])
#define ADD_CHUNK(sum, a, low_a, b) add_chunk(sum, a, low_a, b)
#endif
// The last caches do not hold what other groups write.
DEVICE_FN uint4 read_words(u64 address) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
#define UNWRITTEN 0xffffffffu
#define IS_WRITTEN(v) \
  ((v).x != UNWRITTEN && (v).y != UNWRITTEN && (v).z != UNWRITTEN && (v).w != UNWRITTEN)
DEVICE_FN void write_word(u64 address, u32 word) {
  // Two of the other numbers that are not one.
  if (word == UNWRITTEN) word = 0x7fff7fffu;
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(word) : "memory");
}
#define OWN_UNITS (4 / ELEMENT_BYTES)
#if ELEMENT_BYTES == 4
#define UNITS_WORD(v) as_u32((v)[0])
#define UNITS_OF(v, word) (v)[0] = as_f32(word)
#elif BFLOAT
#define UNITS_WORD(v) (bits_of_bf16((v)[0]) | bits_of_bf16((v)[1]) << 16)
#define UNITS_OF(v, word)                                                                \
  (v)[0] = as_f32((word) << 16);                                                         \
  (v)[1] = as_f32((word) & 0xffff0000u)
#else
DEVICE_FN u32 halves_of(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#define UNITS_WORD(v) halves_of((v)[0], (v)[1])
#define UNITS_OF(v, word)                                                                \
  {                                                                                      \
    const float2 pair_ = floats_of_pair(word);                                           \
    (v)[0] = pair_.x;                                                                    \
    (v)[1] = pair_.y;                                                                    \
  }
#endif
#define WRITE_UNITS(T, p, i, v) write_word((u64)BYTES_AT(p, i), UNITS_WORD(v))
#define UnitsWord u32
#define READ_UNITS(T, p, i) (*(GLOBAL const u32*)BYTES_AT(p, i))
// Chunks that are read at once.
#define AHEAD (ROWS > 16 || ELEMENT_BYTES == 4 ? 4 : 8)
#define ROW_ADDRESS(values, row, items, k) \
  ((u64)((values) + (i64)((row) < (items) ? (row) : (items) - 1) * DEPTH + (k)))
#define STEP_SUMS(values, first, items, written)                                         \
  {                                                                                      \
    const i32 lane_ = LOCAL_ID(0) % 32;                                                  \
    float sum_[ROWS / 16][COLUMNS / 8][4];                                               \
    UNROLL for (i32 i_ = 0; i_ < ROWS / 16; ++i_) {                                      \
      UNROLL for (i32 j_ = 0; j_ < COLUMNS / 8; ++j_) {                                  \
        UNROLL for (i32 e_ = 0; e_ < 4; ++e_) sum_[i_][j_][e_] = 0;                      \
      }                                                                                  \
    }                                                                                    \
    UNROLL for (i32 c0_ = 0; c0_ < CHUNKS; c0_ += AHEAD) {                               \
      uint4 v_[AHEAD][ROWS / 8];                                                         \
      UNROLL for (i32 c_ = 0; c_ < AHEAD && c0_ + c_ < CHUNKS; ++c_) {                   \
        const i32 k_ = FIRST_ELEMENT(c0_ + c_);                                          \
        UNROLL for (i32 i_ = 0; i_ < ROWS / 8; ++i_) {                                   \
          const i32 row_ = (first) + i_ * 8 + lane_ / 4;                                 \
          v_[c_][i_] = make_uint4(0, 0, 0, 0);                                           \
          if (ELEMENT_IS_INSIDE(k_)) v_[c_][i_] = read_words(ROW_ADDRESS(values, row_, items, k_));\
        }                                                                                \
      }                                                                                  \
      UNROLL for (i32 c_ = 0; c_ < AHEAD && c0_ + c_ < CHUNKS; ++c_) {                   \
        const i32 k_ = FIRST_ELEMENT(c0_ + c_);                                          \
        UNROLL for (i32 i_ = 0; i_ < ROWS / 8; ++i_) {                                   \
          const i32 row_ = (first) + i_ * 8 + lane_ / 4;                                 \
          while ((written) && !IS_WRITTEN(v_[c_][i_])) {                                 \
            v_[c_][i_] = read_words(ROW_ADDRESS(values, row_, items, k_));               \
          }                                                                              \
        }                                                                                \
        asm volatile("bar.warp.sync 0xffffffff;" : : : "memory");                        \
        UNROLL for (i32 i_ = 0; i_ < ROWS / 16; ++i_) {                                  \
          const uint4 a0_ = v_[c_][2 * i_], a1_ = v_[c_][2 * i_ + 1];                    \
          u32 a_[2][4] = {{a0_.x, a1_.x, a0_.y, a1_.y}, {a0_.z, a1_.z, a0_.w, a1_.w}};   \
          SPLIT_ROWS(a_, low_a_);                                                        \
          UNROLL for (i32 j_ = 0; j_ < COLUMNS / 8; ++j_) {                              \
            ADD_CHUNK(sum_[i_][j_], a_, low_a_, own_[c0_ + c_][j_]);                     \
          }                                                                              \
        }                                                                                \
      }                                                                                  \
    }                                                                                    \
    UNROLL for (i32 i_ = 0; i_ < ROWS / 16; ++i_) {                                      \
      UNROLL for (i32 j_ = 0; j_ < COLUMNS / 8; ++j_) {                                  \
        UNROLL for (i32 e_ = 0; e_ < 4; ++e_) {                                          \
          const i32 row_ = LOCAL_ID(0) / 32 * ROWS + i_ * 16 + e_ / 2 * 8 + lane_ / 4;   \
          sums_[row_ * SUM_ROW + j_ * 8 + lane_ % 4 * 2 + e_ % 2] = sum_[i_][j_][e_];    \
        }                                                                                \
      }                                                                                  \
    }                                                                                    \
    BARRIER;                                                                             \
  }
#define TOTAL(v, values, first, row, column)                                             \
  v = 0;                                                                                 \
  UNROLL for (i32 team_ = 0; team_ < TEAMS; ++team_) {                                   \
    v += sums_[(team_ * ROWS + (row)) * SUM_ROW + (column)];                             \
  }
#define END_SUMS BARRIER
#else
#define SUM_MEMORY
#define READ_WEIGHTS
#define OWN_UNITS 1
#define WRITE_UNITS(T, p, i, v) STORE(T, p, i, (v)[0])
#define UnitsWord Acctype
#define READ_UNITS(T, p, i) LOAD(T, p, i)
#define UNITS_OF(v, word) (v)[0] = word
#define STEP_SUMS(values, first, items, written)
// Also orders what the items of the group read and write in global memory.
#ifdef __OPENCL_VERSION__
#define END_SUMS barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define END_SUMS BARRIER
#endif
#define TOTAL(v, values, first, row, column)                                             \
  v = 0;                                                                                 \
  for (i32 k_ = 0; k_ < DEPTH; ++k_) {                                                   \
    v += CAT(load_, MItype)(values, (i64)((first) + (row)) * DEPTH + k_, 0) *            \
         LOAD(MItype, weights, WEIGHT_AT(column, k_));                                   \
  }
#endif
