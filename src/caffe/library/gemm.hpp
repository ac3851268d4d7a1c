#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/library/operator.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// One matrix product, row-major, for each i of batch:
//   C_i[m, n] = activation(alpha * op(A_i)[m, k] * op(B_i)[k, n] + beta * C_i[m, n] + bias)
// op(A) is A[m, k], or the transpose of A[k, m]; op(B) is B[k, n], or the transpose of B[n, k].
// Leading dimensions and strides count elements; 0 means dense, see the functions below. With a
// stride of kShared every i uses the same matrix (not for C). C is not read if beta is 0.
struct GemmDescriptor {
  static constexpr int64_t kDense = 0, kShared = -1;

  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = kDense, ldb = kDense, ldc = kDense;
  int64_t batch = 1;
  int64_t stride_a = kDense, stride_b = kDense, stride_c = kDense;
  // (float, float), (double, double), (half, half), (half, float), (bfloat16, bfloat16) and
  // (bfloat16, float). Sums are float, or double for double. (quant8, quant8), (quant16, quant16):
  // the operand along which the bias lies (A per row, B per column) is the weights, the same for
  // every i; the other operand is the activations; see QuantArguments. They always have a bias.
  // (quant8, float): the same, and C are the real values of the sums, without stages
  // (kernels/math/sum_value.h).
  DataType in = kFloat, out = kFloat;
  Epilogue epilogue;  // a bias has m elements (per row) or n (per column), the same for every i
  // The operand that holds weights: the same matrix for every i and for many calls, which Prepare
  // may convert to another form. kNone: both are new in each call. Quantized types: see weights().
  enum class Weights { kNone, kA, kB };
  Weights constant = Weights::kNone;
  // 0, or groups of rows of C that have a B, a bias, slopes and factors of codes of their own:
  // arrays of all groups, one after the other, and GemmArguments::offsets. B is the weights, and
  // there is one product (batch 1). Prepare makes the weights of one group.
  int64_t row_groups = 0;
  // For quant8: C are the sums of products of codes and (weight - zero point) themselves, i32,
  // without a bias. k is at most kNarrowDepth.
  bool sums = false;

  // The effective values, with kDense and kShared resolved.
  int64_t row_a() const { return lda != kDense ? lda : trans_a ? m : k; }
  int64_t row_b() const { return ldb != kDense ? ldb : trans_b ? k : n; }
  int64_t row_c() const { return ldc != kDense ? ldc : n; }
  int64_t batch_stride_a() const { return BatchStride(stride_a, (trans_a ? k : m) * row_a()); }
  int64_t batch_stride_b() const { return BatchStride(stride_b, (trans_b ? n : k) * row_b()); }
  int64_t batch_stride_c() const { return BatchStride(stride_c, m * row_c()); }
  bool quantized() const { return in.is_quantized(); }
  // Whether the real values of sums of codes are stored.
  bool stores_values() const { return quantized() && !out.is_quantized(); }
  // Bytes of an element of C.
  int64_t result_bytes() const {
    return static_cast<int64_t>(sums ? sizeof(int32_t) : out.bytes());
  }
  // The operand for Prepare.
  Weights weights() const {
    if (!quantized()) return constant;
    return epilogue.bias == Epilogue::Bias::kPerRow ? Weights::kA : Weights::kB;
  }
  // Whether sums have 64 bits.
  bool wide_sums() const { return in == kQuant16 || k > kNarrowDepth; }
  // "half/float tn 64x500x800 batch 4 +bias +relu"
  std::string name() const;
  // All fields, unlike name().
  std::string key() const;
  // Throws unless sizes, leading dimensions and types are as described above.
  void Check() const;

 private:
  static int64_t BatchStride(int64_t stride, int64_t dense) {
    return stride == kDense ? dense : stride == kShared ? 0 : stride;
  }
};

// The operands of a product.
struct GemmArguments {
  DevicePtr a, b, c;
  DevicePtr bias = {};         // null if the epilogue has none, and for quantized types
  double alpha = 1, beta = 0;  // 1 and 0 for quantized types
  DevicePtr prepared = {};     // the result of Prepare; null if there is nothing to prepare
  EpilogueOperands epilogue = {};
  const QuantArguments* quant = nullptr;  // for quantized types, and for these only
  DevicePtr workspace = {};
  DevicePtr offsets = {};  // for row_groups: the first row of each group, as in ConvArguments
};

// A product prepared for one descriptor on one device.
class GemmOp : public Operator {
 public:
  // Enqueues the product.
  void Run(const GemmArguments& arguments);
  const GemmDescriptor& descriptor() const { return descriptor_; }

 protected:
  explicit GemmOp(const GemmDescriptor& descriptor) : descriptor_(descriptor) {}
  virtual void DoRun(const GemmArguments& arguments) = 0;
  // Throws if the operator needs prepared weights or a workspace and the call passes none.
  void CheckMemory(const GemmArguments& arguments) const;
  GemmDescriptor descriptor_;
};

}  // namespace caffe
