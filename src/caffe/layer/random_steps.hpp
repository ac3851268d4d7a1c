// Random numbers for fillers, many at a time.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

// Each writes `count` numbers, of which number i depends on `seed` and `first` + i alone. They have
// the same bits on every processor.
struct RandomSteps {
  // Uniform in [0, 1): multiples of 2^-53.
  void (*uniform)(unsigned long seed, unsigned long first, long count, double* y);
  // Standard normal, by Box and Muller's transform of two uniform numbers u and v:
  // sqrt(-2 log(1 - u)) cos(2 pi v).
  void (*normal)(unsigned long seed, unsigned long first, long count, double* y);
  // The two factors of `normal`, for u in (0, 1] and v in [0, 1): log(u) and cos(2 pi v), with
  // errors of a few units in the last place, relative to 1 for a cosine.
  void (*log)(const double* u, long count, double* y);
  void (*cos_of_turns)(const double* v, long count, double* y);
};

}  // namespace caffe
