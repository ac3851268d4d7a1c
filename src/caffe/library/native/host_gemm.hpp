#pragma once

#include <cstdint>

namespace caffe {

// C[m, n] = alpha op(A) op(B) + beta C on the calling thread, row-major; op as in GemmDescriptor.
template <class T>
using HostGemm = void (*)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha,
                          const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c,
                          int64_t ldc);

// The matrix products of one library for the CPU.
struct HostGemms {
  const char* library;
  HostGemm<float> f32;
  HostGemm<double> f64;
  // It divides one product over the threads itself when it is called outside a parallel region.
  bool threads;
  // Several threads may call it at once.
  bool nestable;

  template <class T> HostGemm<T> Of() const {
    if constexpr (sizeof(T) == 4) {
      return f32;
    } else {
      return f64;
    }
  }
};

const HostGemms& NativeGemms();
const HostGemms& OpenBlasGemms();

}  // namespace caffe
