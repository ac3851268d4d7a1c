#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <string>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// BLAS calls take this lock shared, `fork()` takes it exclusively: otherwise a child could inherit
// OpenBLAS buffers that a thread of the parent had reserved, and deadlock.
pthread_rwlock_t products = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

class Computing {
 public:
  Computing() { pthread_rwlock_rdlock(&products); }
  ~Computing() { pthread_rwlock_unlock(&products); }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;
};

void ComputeAlone() { pthread_rwlock_wrlock(&products); }
void ComputeAgain() { pthread_rwlock_unlock(&products); }
// The lock contains the owner's thread id, which is different in the child.
void ComputeInChild() { products = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP; }

CBLAS_TRANSPOSE Op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void Sgemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
           int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const Computing now;
  cblas_sgemm(CblasRowMajor, Op(trans_a), Op(trans_b), m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
}

void Dgemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
           const double* a, int64_t lda, const double* b, int64_t ldb, double beta, double* c,
           int64_t ldc) {
  const Computing now;
  cblas_dgemm(CblasRowMajor, Op(trans_a), Op(trans_b), m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
}

#if defined(__x86_64__)
// OpenBLAS knows processors by their model. For a newer one it may choose the code for Prescott,
// without AVX, which takes four times as long. Its own functions choose again, by its variable.
void ChooseCode() {
  constexpr char kVariable[] = "OPENBLAS_CORETYPE", kOldest[] = "Prescott";
  const InstructionLevel level = HostLevelNumber();
  const char* code = level == InstructionLevel::kV4   ? "SkylakeX"
                     : level == InstructionLevel::kV3 ? "Haswell"
                                                      : nullptr;
  if (!code || std::getenv(kVariable) || openblas_get_corename() != std::string(kOldest)) return;
  using Function = void (*)();
  const auto forget = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_quit"));
  const auto choose = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init"));
  if (!forget || !choose) {
    log::Info(Concat("OpenBLAS does not know this processor and computes without AVX; set ",
                     kVariable, "=", code));
    return;
  }
  setenv(kVariable, code, 1);
  forget();
  choose();
  unsetenv(kVariable);
  log::Debug(Concat("OpenBLAS does not know this processor; it now computes with the code for ",
                    openblas_get_corename()));
}
#else
void ChooseCode() {}
#endif

HostGemms Find() {
  ChooseCode();
  pthread_atfork(&ComputeAlone, &ComputeAgain, &ComputeInChild);
  constexpr int kOpenMp = 2;
  const bool openmp = openblas_get_parallel() == kOpenMp;
  if (!openmp) {
    log::Info(
        "OpenBLAS is not its OpenMP build: it is called only outside parallel regions, and "
        "convolutions use the native matrix product; libopenblas-openmp-dev is faster");
  }
  return {"openblas", &Sgemm, &Dgemm, true, openmp};
}

}  // namespace

const HostGemms& OpenBlasGemms() {
  static const HostGemms gemms = Find();
  return gemms;
}

}  // namespace caffe
