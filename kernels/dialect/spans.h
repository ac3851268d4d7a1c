// Loops of devices. A work item computes SPAN neighbouring elements: it reads all of them in
// one access if they lie at a multiple of 16 bytes, and before it writes any. Comes after common.h;
// host.h has the loops of the CPU.
#define LOAD_SPAN(T, v, p, i, n) CAT(load_span_, T)(v, p, AT(p, i), AT(p, n), p##_zero)
#define STORE_SPAN(T, p, i, n, v) CAT(store_span_, T)(p, AT(p, i), AT(p, n), p##_zero, v)
// These load a span that lies in the array and at a multiple of 16 bytes, without looking: several
// of them do not wait for each other. BEGINS_WHOLE(p) says whether the array begins so.
#define LOAD_WHOLE_SPAN(T, v, p, i) CAT(load_whole_span_, T)(v, p, AT(p, i), p##_zero)
#define BEGINS_WHOLE(p) (((u64)BYTES_AT(p, 0) & 15) == 0)
#define SPAN_IS_WHOLE(p, i, n) ((i) + SPAN <= (n) && ((u64)((p) + (i)) & 15) == 0)
#define FOR_SPAN(k) UNROLL for (i32 k = 0; k < SPAN; ++k)
// One by one, for types without a shorter way.
#define SPAN_BY_ELEMENTS(T)                                                              \
  DEVICE_FN void load_whole_span_##T(acc_##T* v, GLOBAL const storage_##T* p, i64 i,     \
                                     i32 zero) {                                         \
    FOR_SPAN(k) v[k] = load_##T(p, i + k, zero);                                         \
  }                                                                                      \
  DEVICE_FN void load_span_##T(acc_##T* v, GLOBAL const storage_##T* p, i64 i, i64 n,    \
                               i32 zero) {                                               \
    FOR_SPAN(k) v[k] = i + k < n ? load_##T(p, i + k, zero) : 0;                         \
  }                                                                                      \
  DEVICE_FN void store_span_##T(GLOBAL storage_##T* p, i64 i, i64 n, i32 zero,           \
                                const acc_##T* v) {                                      \
    FOR_SPAN(k) if (i + k < n) store_##T(p, i + k, zero, v[k]);                          \
  }
#define FOR_EACH_SPAN(first, n)                                                          \
  for (i64 first = GLOBAL_ID(0) * SPAN; first < (n); first = (n))

// A work item computes a block: BLOCK neighbours, a span or one element. A program defines BLOCK,
// which divides the lanes.
#ifndef BLOCK
#define BLOCK 1
#endif
#define FOR_EACH_FOUR(r, rows, plane, lines, cols)                                       \
  FOR_EACH_ROW(r, rows, c_, cols)                                                        \
  for (Index plane = r / (lines), once_ = 1; once_; once_ = 0)
#define COLUMN_OF_FOUR c_
#define LANES_OF(n) (n)
#define HAS_LANES(n) ((n) > 1)
#define FOR_EACH_BLOCK(r, rows, c, n)                                                    \
  for (Index id_ = (Index)GLOBAL_ID(0), r = id_ / (Index)((n) / BLOCK),                  \
             c = (id_ - r * (Index)((n) / BLOCK)) * BLOCK;                               \
       id_ < (rows) * ((n) / BLOCK); id_ = (rows) * ((n) / BLOCK))
#define BLOCK_COUNT(c, n) BLOCK
#define FOR_BLOCK(i, count, statement)                                                   \
  UNROLL for (i32 i = 0; i < BLOCK; ++i) {                                               \
    statement;                                                                           \
  }
#if BLOCK == 1
#define LOAD_BLOCK(T, v, p, at) v[0] = LOAD(T, p, at)
#define STORE_VALUES(T, p, at, v) STORE(T, p, at, v[0])
#else
#define LOAD_BLOCK(T, v, p, at) LOAD_SPAN(T, v, p, at, (at) + BLOCK)
#define STORE_VALUES(T, p, at, v) STORE_SPAN(T, p, at, (at) + BLOCK, v)
#endif
#define BLOCK1(i, count, at, TX, x, v, statement)                                        \
  {                                                                                      \
    CAT(acc_, TX) x_[BLOCK];                                                             \
    LOAD_BLOCK(TX, x_, x, at);                                                           \
    FOR_BLOCK(i, count, const CAT(acc_, TX) v = x_[i]; statement)                        \
  }
#define BLOCK2(i, count, at, TX, x, v, TW, w, u, statement)                              \
  {                                                                                      \
    CAT(acc_, TX) x_[BLOCK];                                                             \
    CAT(acc_, TW) w_[BLOCK];                                                             \
    LOAD_BLOCK(TX, x_, x, at);                                                           \
    LOAD_BLOCK(TW, w_, w, at);                                                           \
    FOR_BLOCK(i, count, const CAT(acc_, TX) v = x_[i]; const CAT(acc_, TW) u = w_[i];    \
              statement)                                                                 \
  }
#define STORE_BLOCK(i, count, at, T, p, value)                                           \
  {                                                                                      \
    CAT(acc_, T) y_[BLOCK];                                                              \
    FOR_BLOCK(i, count, y_[i] = (value))                                                 \
    STORE_VALUES(T, p, at, y_);                                                          \
  }

#define MAP1(n, TY, y, TX, x, v, value)                                                  \
  FOR_EACH_SPAN(first_, n) {                                                             \
    CAT(acc_, TX) x_[SPAN];                                                              \
    CAT(acc_, TY) y_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, first_, n);                                                     \
    FOR_SPAN(k_) {                                                                       \
      const CAT(acc_, TX) v = x_[k_];                                                    \
      y_[k_] = (value);                                                                  \
    }                                                                                    \
    STORE_SPAN(TY, y, first_, n, y_);                                                    \
  }
#define MAP2(n, TY, y, TX, x, v, TW, w, u, value)                                        \
  FOR_EACH_SPAN(first_, n) {                                                             \
    CAT(acc_, TX) x_[SPAN];                                                              \
    CAT(acc_, TW) w_[SPAN];                                                              \
    CAT(acc_, TY) y_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, first_, n);                                                     \
    LOAD_SPAN(TW, w_, w, first_, n);                                                     \
    FOR_SPAN(k_) {                                                                       \
      const CAT(acc_, TX) v = x_[k_];                                                    \
      const CAT(acc_, TW) u = w_[k_];                                                    \
      y_[k_] = (value);                                                                  \
    }                                                                                    \
    STORE_SPAN(TY, y, first_, n, y_);                                                    \
  }
// The channel is constant in most spans; others continue in the next row.
#define ROW_SPANS_(rows, columns, channels, c, statement)                                \
  const Index row_ = (Index)first_ / (Index)(columns);                                   \
  Index column_ = (Index)first_ - row_ * (Index)(columns);                               \
  Index channel_ = row_ % (Index)(channels);                                             \
  if (column_ + SPAN <= (columns)) {                                                     \
    const Index c = channel_;                                                            \
    FOR_SPAN(k_) { statement }                                                           \
  } else {                                                                               \
    FOR_SPAN(k_) {                                                                       \
      const Index c = channel_;                                                          \
      statement                                                                          \
      if (++column_ == (columns)) {                                                      \
        column_ = 0;                                                                     \
        if (++channel_ == (channels)) channel_ = 0;                                      \
      }                                                                                  \
    }                                                                                    \
  }
#define MAP_ROWS1(rows, columns, channels, c, TY, y, TX, x, v, value)                    \
  FOR_EACH_SPAN(first_, (rows) * (columns)) {                                            \
    CAT(acc_, TX) x_[SPAN];                                                              \
    CAT(acc_, TY) y_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, first_, (rows) * (columns));                                    \
    ROW_SPANS_(rows, columns, channels, c, const CAT(acc_, TX) v = x_[k_];               \
               y_[k_] = (value);)                                                        \
    STORE_SPAN(TY, y, first_, (rows) * (columns), y_);                                   \
  }
#define MAP_ROWS2(rows, columns, channels, c, TY, y, TX, x, v, TW, w, u, value)          \
  FOR_EACH_SPAN(first_, (rows) * (columns)) {                                            \
    CAT(acc_, TX) x_[SPAN];                                                              \
    CAT(acc_, TW) w_[SPAN];                                                              \
    CAT(acc_, TY) y_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, first_, (rows) * (columns));                                    \
    LOAD_SPAN(TW, w_, w, first_, (rows) * (columns));                                    \
    ROW_SPANS_(rows, columns, channels, c, const CAT(acc_, TX) v = x_[k_];               \
               const CAT(acc_, TW) u = w_[k_]; y_[k_] = (value);)                        \
    STORE_SPAN(TY, y, first_, (rows) * (columns), y_);                                   \
  }
#define LANES1(lane, lanes, row, n, TX, x, v, statement)                                 \
  for (Index i_ = (lane) * SPAN; i_ < (n); i_ += (lanes) * SPAN) {                       \
    CAT(acc_, TX) x_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, (row) + i_, (row) + (n));                                       \
    FOR_SPAN(k_) if (i_ + k_ < (n)) {                                                    \
      const CAT(acc_, TX) v = x_[k_];                                                    \
      statement;                                                                         \
    }                                                                                    \
  }
#define LANES2(lane, lanes, row, n, TX, x, v, TW, w, u, statement)                       \
  for (Index i_ = (lane) * SPAN; i_ < (n); i_ += (lanes) * SPAN) {                       \
    CAT(acc_, TX) x_[SPAN];                                                              \
    CAT(acc_, TW) w_[SPAN];                                                              \
    LOAD_SPAN(TX, x_, x, (row) + i_, (row) + (n));                                       \
    LOAD_SPAN(TW, w_, w, (row) + i_, (row) + (n));                                       \
    FOR_SPAN(k_) if (i_ + k_ < (n)) {                                                    \
      const CAT(acc_, TX) v = x_[k_];                                                    \
      const CAT(acc_, TW) u = w_[k_];                                                    \
      statement;                                                                         \
    }                                                                                    \
  }
