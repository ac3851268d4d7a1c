//! types: device
// moe/gather.h for rows of `vectors` times 16 bytes, which are copied. `padding` is the content of
// rows without a pair, repeated in 4 bytes, `lost` that of rows with an invalid one.
#include "math/routed_row.h"

KERNEL(moe_gather_vectors, ARG(i64, rows), ARG(i64, vectors), ARG(i64, select), ARG(i64, lanes),
       ARG(i64, pairs), ARG(u32, padding), ARG(u32, lost), IN(i32, x), IN(f32, source), OUT(i32, y)) {
  FOR_EACH_GROUP(g, rows * lanes) {
    const Index r = g / lanes, lane = g - r * lanes;
    const Index pair = (Index)routed_row(LOAD(f32, source, r), pairs);
    const u32 word = pair < -1 ? lost : padding;
    const uint4 none = make_uint4(word, word, word, word);
    GLOBAL const uint4* from =
        (GLOBAL const uint4*)BYTES_AT(x, 0) + (pair < 0 ? 0 : pair / select * vectors);
    GLOBAL uint4* to = (GLOBAL uint4*)BYTES_AT(y, 0) + r * vectors;
    FOR_LANES(c, lane, lanes, vectors) to[c] = pair < 0 ? none : from[c];
  }
}
