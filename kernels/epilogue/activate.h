// An activation over n values, for kernels whose arguments select it. The numbers are those of
// ActivationFormula in caffe/library/epilogue_stages.hpp; the kernel itself handles 7, a slope for
// each column.
#include "epilogue/bounds.h"
#include "epilogue/elu.h"
#include "epilogue/relu.h"
#include "epilogue/relu6.h"
#include "epilogue/sigmoid.h"
#include "epilogue/swish.h"
#include "epilogue/tanh.h"
DEVICE_FN void activate(Acctype* v, Index n, i32 formula, Acctype a, Acctype b) {
  if (formula == 0) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = clip_value(v[i], a, b);
  } else if (formula == 1) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = leaky_value(v[i], 1, a);
  } else if (formula == 2) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = relu6_value(v[i], a);
  } else if (formula == 3) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = elu_value(v[i], a);
  } else if (formula == 4) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = sigmoid_value(v[i]);
  } else if (formula == 5) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = tanh_value(v[i]);
  } else if (formula == 6) {
    SIMD for (Index i = 0; i < n; ++i) v[i] = swish_value(v[i], a);
  }
}
