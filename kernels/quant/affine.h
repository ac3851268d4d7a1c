//! types: quantized
// y = (x multiplier[c] + addend[c]) / 2^shift[c], at least `low`, where c is the channel: see
// epilogue/code_sum.h. In place allowed.
#include "epilogue/code_sum.h"

SPAN_KERNEL(affine_codes_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), ARG(i32, low),
            IN(MItype, x), IN(i64, addend), IN(i32, multiplier), IN(i32, shift), OUT(MOtype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MOtype, y, MItype, x, v,
            affine_code(v, LOAD(i32, multiplier, c), LOAD(i64, addend, c), LOAD(i32, shift, c), low))
}

// Rows of all channels.
KERNEL(affine_codes_columns, ARG(i64, rows), ARG(i64, channels), ARG(i32, low), IN(MItype, x),
       IN(i64, addend), IN(i32, multiplier), IN(i32, shift), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, channels) {
    const Index at = r * channels + c;
    STORE(MOtype, y, at, affine_code(LOAD(MItype, x, at), LOAD(i32, multiplier, c),
                                     LOAD(i64, addend, c), LOAD(i32, shift, c), low));
  }
}
