#pragma once

#include <cstdint>

// The enumerators of cublas_api.h, cublasLt.h and library_types.h that are used here: no header of
// the toolkit is needed to build. tests/library/vendor_constants_test.cpp compares them.
namespace caffe::cublas {

constexpr int kNoTranspose = 0, kTranspose = 1;
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBfloat16 = 14;
constexpr int kCompute32 = 68, kCompute64 = 70, kDefaultAlgorithm = -1;
// Plain float products, no TF32; half kinds sum entirely in float.
constexpr int kDefaultMath = 0, kNoReducedPrecisionReduction = 16;
constexpr int kExecutionFailed = 13, kInternalError = 14;

constexpr int kLayoutBatch = 5, kLayoutBatchStride = 6;
constexpr int kProductTransA = 3, kProductTransB = 4, kProductEpilogue = 7, kProductBias = 8;
constexpr int kProductBiasType = 26;
constexpr int kPreferWorkspace = 1, kPreferReductions = 3, kPreferAlignmentA = 5;
constexpr int kPreferAlignmentD = 8;
constexpr int kEpilogueRelu = 2, kEpilogueBias = 4;
constexpr uint32_t kReduceInPlace = 1, kReduceInComputeType = 2;

}  // namespace caffe::cublas
