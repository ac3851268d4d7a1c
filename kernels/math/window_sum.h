// The sum of VALUE(position) over the window of column c of row r; see norm/lrn.h.
#define WINDOW_SUM(sum, r, c, VALUE) \
  const Index h = r % (Index)extent; \
  const Index top = r - (h < reach ? h : (Index)reach); \
  const Index bottom = r + (extent - 1 - h < reach ? extent - 1 - h : (Index)reach); \
  Acctype sum = 0; \
  for (Index p = top; p <= bottom; ++p) { \
    for (Index q = -side; q <= side; ++q) { \
      const i32 inside = side == 0 || (c + q >= 0 && c + q < columns); \
      sum += inside ? VALUE(p * (Index)columns + c + q) : (Acctype)0; \
    } \
  }
