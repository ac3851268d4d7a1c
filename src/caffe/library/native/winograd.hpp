// Winograd's minimal filtering in two dimensions with six points per axis: tiles of M x M outputs
// need 36 products instead of M^2 R^2 for windows of R x R, M + R = 7 (M is 2 for 5x5, 4 for 3x3).
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks". With the points 0, 1, -1,
// 1/2, -2 and infinity it is as accurate as direct summation (Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks").
//
// 16 images are computed in parallel: arrays "in lanes" have them as the last axis, so that all
// tiles need the same operations. The 36 points are computed in six slices of six, which fit the
// cache.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

struct WinogradShape {
  long tile;             // M
  long inputs, outputs;  // channels
  long tiles_y, tiles_x;
  long rows, columns;        // of outputs, rounded up to whole tiles
  long in_rows, in_columns;  // the inputs of these outputs
};

// Rows of tiles [begin, end). `stride` is the number of elements from channel to channel of a
// slice, at least (end - begin) * tiles_x * 16.
struct WinogradStrip {
  long begin, end, stride;
};

// x is in lanes [inputs, in_rows, in_columns, 16], y is in lanes [outputs, rows, columns, 16]; a
// slice is [6, channels, stride]. `row` has in_columns * 16 elements.
struct WinogradSteps {
  // v = slice `i` of the transformed tiles of x.
  void (*input)(const WinogradShape&, const WinogradStrip&, int i, const float* x, float* v,
                float* row);
  // The adjoint of `input`, added to x.
  void (*input_adjoint)(const WinogradShape&, const WinogradStrip&, int i, const float* v, float* x,
                        float* row);
  // Adds the contribution of slice `i` to y. Slices come in order; the first ones overwrite.
  void (*output)(const WinogradShape&, const WinogradStrip&, int i, const float* m, float* y);
  // The adjoint of `output`: m = slice `i`.
  void (*output_adjoint)(const WinogradShape&, const WinogradStrip&, int i, const float* y,
                         float* m);
  // u [36, count rounded up to 16] = the transformed windows w [count, R, R], for windows
  // [begin, end); begin is a multiple of 16.
  void (*filter)(long tile, long count, long begin, long end, const float* w, float* u);
  // The adjoint of `filter`, added to w.
  void (*filter_adjoint)(long tile, long count, long begin, long end, const float* u, float* w);
  // c[i, j] += the sum of a[i, k] b[j, k] over k, a multiple of 16; m and n are at least 5. The
  // rows of a and of b are `stride` elements apart.
  void (*inner)(long m, long n, long k, const float* a, const float* b, long stride, float* c);
};

}  // namespace caffe
