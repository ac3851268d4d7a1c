#include "caffe/library/onednn/invalid_flags.hpp"

#include <omp.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace caffe::onednn {

#if defined(__x86_64__)

bool ClearInvalidFlags() {
  int set = 0;
#pragma omp parallel reduction(| : set) if (!omp_in_parallel())
  {
    const unsigned state = _mm_getcsr();
    if (state & _MM_EXCEPT_INVALID) {
      set = 1;
      _mm_setcsr(state & ~_MM_EXCEPT_INVALID);
    }
  }
  return set != 0;
}

#else

bool ClearInvalidFlags() { return true; }

#endif

}  // namespace caffe::onednn
