#pragma once

#include <memory>

#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/generated/float_product.hpp"

namespace caffe {

// Products of a few rows of floats with weights that are read as they are:
// kernels/blas/vector_matrix.h. Sums are float. More rows than `Computes` knows take less time by
// FloatProduct.
class VectorProduct {
 public:
  using Problem = MatrixProduct::Problem;
  // `sharers` work items share `own` channels.
  struct Division {
    int64_t own, sharers;
  };

  static bool Computes(const Problem& problem);
  VectorProduct(Device* device, const Problem& problem);
  VectorProduct(Device* device, const Problem& problem, const Division& division);
  int64_t packed_bytes() const { return 0; }
  int64_t workspace_bytes() const { return 0; }
  void Pack(DevicePtr, DevicePtr) {}
  void Run(const FloatProduct::Operands& operands);

 private:
  // Rows of groups do not share what they read: each is computed alone.
  int64_t SharedRows() const { return problem_.row_groups > 0 ? 1 : problem_.batch; }

  const Problem problem_;
  const EpilogueStages stages_;
  const Division division_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
