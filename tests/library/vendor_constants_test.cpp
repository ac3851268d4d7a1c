// The enumerators of CUDA's libraries that Cortado writes down, compared with the vendor's headers
// where they are installed: a wrong one does not compile.
#include <gtest/gtest.h>

#include "caffe/device/cuda/cuda_driver.hpp"
#include "caffe/device/cuda/nvrtc.hpp"
#include "caffe/library/cublas/cublas_constants.hpp"
#include "caffe/library/cudnn/cudnn_api.hpp"
#include "caffe/parallel/nccl_api.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#endif
#if __has_include(<cublasLt.h>) && __has_include(<cublas_v2.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
#endif
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)

namespace caffe {
namespace {

TEST(VendorConstantsTest, OfTheDriver) {
#ifdef CUDA_VERSION
  using namespace cuda;
  SAME(cuda::kSuccess, CUDA_SUCCESS);
  SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  SAME(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
  SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
  SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
  SAME(kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SAME(kMaxSharedMemoryPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  SAME(kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  SAME(kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  SAME(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SAME(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  SAME(kComputeModeProhibited, CU_COMPUTEMODE_PROHIBITED);
  SAME(kMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SAME(kSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  SAME(sizeof(cuda::CUgraphEdgeData), sizeof(::CUgraphEdgeData));
#else
  GTEST_SKIP() << "there is no cuda.h";
#endif
}

TEST(VendorConstantsTest, OfNvrtc) {
#if __has_include(<nvrtc.h>)
  SAME(cuda::Nvrtc::kCompilationError, NVRTC_ERROR_COMPILATION);
#else
  GTEST_SKIP() << "there is no nvrtc.h";
#endif
}

TEST(VendorConstantsTest, OfNccl) {
#ifdef NCCL_VERSION_CODE
  SAME(nccl::kHalf, ncclFloat16);
  SAME(nccl::kFloat, ncclFloat32);
  SAME(nccl::kDouble, ncclFloat64);
  SAME(nccl::kBfloat16, ncclBfloat16);
  SAME(nccl::kSum, ncclSum);
  SAME(nccl::kSuccess, ncclSuccess);
  SAME(nccl::kInProgress, ncclInProgress);
  SAME(sizeof(nccl::UniqueId), sizeof(ncclUniqueId));
#else
  GTEST_SKIP() << "there is no nccl.h";
#endif
}

TEST(VendorConstantsTest, OfCublas) {
#ifdef CUBLAS_VERSION
  using namespace cublas;
  SAME(kNoTranspose, CUBLAS_OP_N);
  SAME(kTranspose, CUBLAS_OP_T);
  SAME(kReal32, CUDA_R_32F);
  SAME(kReal64, CUDA_R_64F);
  SAME(kReal16, CUDA_R_16F);
  SAME(kRealBfloat16, CUDA_R_16BF);
  SAME(kCompute32, CUBLAS_COMPUTE_32F);
  SAME(kCompute64, CUBLAS_COMPUTE_64F);
  SAME(kDefaultAlgorithm, CUBLAS_GEMM_DEFAULT);
  SAME(kDefaultMath, CUBLAS_DEFAULT_MATH);
  SAME(kNoReducedPrecisionReduction, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  SAME(kExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
  SAME(kInternalError, CUBLAS_STATUS_INTERNAL_ERROR);
  SAME(kLayoutBatch, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SAME(kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(kProductTransA, CUBLASLT_MATMUL_DESC_TRANSA);
  SAME(kProductTransB, CUBLASLT_MATMUL_DESC_TRANSB);
  SAME(kProductEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  SAME(kProductBias, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  SAME(kProductBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SAME(kPreferWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  SAME(kPreferReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  SAME(kPreferAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  SAME(kPreferAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SAME(kEpilogueRelu, CUBLASLT_EPILOGUE_RELU);
  SAME(kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
  SAME(kReduceInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE);
  SAME(kReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
#else
  GTEST_SKIP() << "there is no cublasLt.h";
#endif
}

TEST(VendorConstantsTest, OfCudnn) {
#if __has_include(<cudnn_graph.h>)
  using namespace cudnn;
  SAME(descriptor::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SAME(descriptor::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  SAME(descriptor::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SAME(descriptor::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SAME(descriptor::kHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  SAME(descriptor::kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SAME(descriptor::kKnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  SAME(descriptor::kConvolutionForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  SAME(descriptor::kConvolutionBackwardFilter,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  SAME(descriptor::kConvolutionBackwardData,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  SAME(descriptor::kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SAME(descriptor::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  SAME(descriptor::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  SAME(descriptor::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

  SAME(type::kHandle, CUDNN_TYPE_HANDLE);
  SAME(type::kDataType, CUDNN_TYPE_DATA_TYPE);
  SAME(type::kBoolean, CUDNN_TYPE_BOOLEAN);
  SAME(type::kInt64, CUDNN_TYPE_INT64);
  SAME(type::kFloat, CUDNN_TYPE_FLOAT);
  SAME(type::kDouble, CUDNN_TYPE_DOUBLE);
  SAME(type::kPointer, CUDNN_TYPE_VOID_PTR);
  SAME(type::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
  SAME(type::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
  SAME(type::kKnobType, CUDNN_TYPE_KNOB_TYPE);
  SAME(type::kNanPropagation, CUDNN_TYPE_NAN_PROPOGATION);
  SAME(type::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
  SAME(type::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
  SAME(type::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  SAME(type::kBehaviorNote, CUDNN_TYPE_BEHAVIOR_NOTE);
  SAME(type::kChar, CUDNN_TYPE_CHAR);

  SAME(attribute::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
  SAME(attribute::kPointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
  SAME(attribute::kPointwiseNan, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
  SAME(attribute::kReluLower, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP);
  SAME(attribute::kReluUpper, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP);
  SAME(attribute::kReluSlope, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE);
  SAME(attribute::kEluAlpha, CUDNN_ATTR_POINTWISE_ELU_ALPHA);
  SAME(attribute::kSwishBeta, CUDNN_ATTR_POINTWISE_SWISH_BETA);
  SAME(attribute::kConvType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  SAME(attribute::kConvMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  SAME(attribute::kConvDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  SAME(attribute::kConvStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  SAME(attribute::kConvPostPads, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  SAME(attribute::kConvPrePads, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  SAME(attribute::kConvAxes, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  SAME(attribute::kHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE);
  SAME(attribute::kHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  SAME(attribute::kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  SAME(attribute::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
  SAME(attribute::kConfigKnobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  SAME(attribute::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  SAME(attribute::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  SAME(attribute::kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  SAME(attribute::kKnobType, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
  SAME(attribute::kKnobValue, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  SAME(attribute::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  SAME(attribute::kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  SAME(attribute::kForwardConv, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  SAME(attribute::kForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  SAME(attribute::kForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  SAME(attribute::kForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  SAME(attribute::kDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
  SAME(attribute::kDataBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  SAME(attribute::kDataConv, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
  SAME(attribute::kDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
  SAME(attribute::kDataDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
  SAME(attribute::kDataDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
  SAME(attribute::kFilterAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
  SAME(attribute::kFilterBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  SAME(attribute::kFilterConv, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  SAME(attribute::kFilterDw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
  SAME(attribute::kFilterX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
  SAME(attribute::kFilterDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
  SAME(attribute::kPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  SAME(attribute::kPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  SAME(attribute::kPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  SAME(attribute::kPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  SAME(attribute::kPointwiseAlpha2, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2);
  SAME(attribute::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  SAME(attribute::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  SAME(attribute::kGraphEngines, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  SAME(attribute::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  SAME(attribute::kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
  SAME(attribute::kTensorShape, CUDNN_ATTR_TENSOR_DIMENSIONS);
  SAME(attribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
  SAME(attribute::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  SAME(attribute::kTensorVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  SAME(attribute::kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  SAME(attribute::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  SAME(attribute::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  SAME(attribute::kEngineGraph, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  SAME(attribute::kEngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  SAME(attribute::kEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  SAME(attribute::kEngineBehavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);

  SAME(kCrossCorrelation, CUDNN_CROSS_CORRELATION);
  SAME(kPropagateNan, CUDNN_PROPAGATE_NAN);
  SAME(kHeuristicsA, CUDNN_HEUR_MODE_A);
  SAME(kHeuristicsB, CUDNN_HEUR_MODE_B);
  SAME(kHeuristicsFallback, CUDNN_HEUR_MODE_FALLBACK);
  SAME(kCompiledAtRunTime, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
  SAME(PointwiseMode::kAdd, CUDNN_POINTWISE_ADD);
  SAME(PointwiseMode::kIdentity, CUDNN_POINTWISE_IDENTITY);
  SAME(PointwiseMode::kRelu, CUDNN_POINTWISE_RELU_FWD);
  SAME(PointwiseMode::kTanh, CUDNN_POINTWISE_TANH_FWD);
  SAME(PointwiseMode::kSigmoid, CUDNN_POINTWISE_SIGMOID_FWD);
  SAME(PointwiseMode::kElu, CUDNN_POINTWISE_ELU_FWD);
  SAME(PointwiseMode::kSwish, CUDNN_POINTWISE_SWISH_FWD);
  SAME(Note::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  SAME(Note::kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  SAME(Note::kReducedPrecisionReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  SAME(Note::kFft, CUDNN_NUMERICAL_NOTE_FFT);
  SAME(Note::kNonDeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  SAME(Note::kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
  SAME(Note::kWinograd4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4);
  SAME(Note::kWinograd6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
  SAME(Note::kWinograd13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
  // These are sizes of buffers for what cuDNN reports: they hold all that this version can report.
  static_assert(kKnobTypes >= CUDNN_KNOB_TYPE_COUNTS);
  static_assert(static_cast<int>(Note::kCount) >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  static_assert(kBehaviorNotes >= CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
#if CUDNN_MAJOR * 100 + CUDNN_MINOR >= 906  // the first version that describes devices
  SAME(descriptor::kDeviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  SAME(attribute::kHeuristicDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  SAME(attribute::kPlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  SAME(attribute::kEngineDevice, CUDNN_ATTR_ENGINE_DEVICEPROP);
  SAME(attribute::kDeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  SAME(Note::kStrictNan, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
#endif
#else
  GTEST_SKIP() << "there is no cudnn_graph.h";
#endif
}

}  // namespace
}  // namespace caffe
