#include "caffe/library/generated/vector_product.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kFewestItems = 32;  // of a work group
constexpr int64_t kChunk = 16;        // bytes that are read at once

// Each channel of an item uses what the item reads of x. More items have more reads in flight:
// steps read about 1800 times on each compute unit, and each item has at least two.
VectorProduct::Division Divide(Device* device, const MatrixProduct::Problem& p) {
  constexpr int64_t kReads = 1800, kFewestSteps = 2;
  const bool groups = p.row_groups > 0;
  VectorProduct::Division d{!groups && p.batch > 2 ? 4 : 2, kFewestItems};
  const int64_t full = device->info().compute_units * kReads / d.own;
  const int64_t shared = Ceil(p.out_channels, d.own) * (groups ? p.batch : 1);
  const int64_t chunks = MatrixProduct::DepthBytes(p) / kChunk;
  while (2 * d.sharers <= device->info().group_items() && shared * d.sharers < full &&
         chunks >= 2 * d.sharers * kFewestSteps) {
    d.sharers *= 2;
  }
  return d;
}

}  // namespace

bool VectorProduct::Computes(const Problem& p) {
  // Rows of groups are few for each group. Those of half kinds take more instructions for the same
  // bytes.
  const int64_t most_rows = p.row_groups > 0 ? 16 : p.type == kFloat ? 4 : 2;
  return FloatProduct::KnowsTypes(p.type, p.out) && MatrixProduct::Rows(p) == p.batch &&
         p.batch <= most_rows && MatrixProduct::Pointwise(p) && FloatProduct::ReadsWeights(p);
}

VectorProduct::VectorProduct(Device* device, const Problem& problem)
    : VectorProduct(device, problem, Divide(device, problem)) {}

VectorProduct::VectorProduct(Device* device, const Problem& problem, const Division& division)
    : problem_(problem), stages_(problem.epilogue), division_(division) {
  const Problem& p = problem_;
  CAFFE_CHECK(Computes(p), "a product of ", MatrixProduct::Rows(p),
              " rows is not one of a few rows");
  ProgramBuilder builder(device, "vector matrix");
  builder.Types({kFloat, p.type, p.out})
      .Define("MATRIX_UNITS", std::min(1, MatrixUnits(device)))
      .Define("ELEMENT_BYTES", static_cast<int64_t>(p.type.bytes()))
      .Define("BFLOAT", p.type == kBfloat16)
      .Define("ROWS", SharedRows())
      .Define("OWN", division_.own)
      .Define("SHARERS", division_.sharers)
      .Define("BIAS", p.epilogue.bias != Epilogue::Bias::kNone)
      .Define("ROW_GROUPS", p.row_groups);
  stages_.Define(&builder);
  kernel_ = builder.Body("blas/vector_matrix").GroupKernel("vector_matrix");
  MatrixProduct::CheckItems(*kernel_, kernel_->group(), division_.sharers);
}

void VectorProduct::Run(const FloatProduct::Operands& o) {
  const Problem& p = problem_;
  if (o.x.offset % kChunk != 0 || o.weights.offset % kChunk != 0) {
    throw LibraryRefusal(Concat("x begins at byte ", o.x.offset,
                                " of its memory and the weights at byte ", o.weights.offset, "; ",
                                kChunk, " bytes are read at once"));
  }
  KernelArguments arguments{p.out_channels, MatrixProduct::DepthBytes(p), p.y_row, o.alpha, o.beta};
  stages_.AddArguments(o.epilogue, o.y, &arguments);
  const DevicePtr none = BufferOf(o.y);
  arguments.append({o.offsets ? o.offsets : none, o.x, o.weights, o.bias ? o.bias : none, o.y});
  const int64_t channels = kernel_->group() / division_.sharers * division_.own;  // of a work group
  const int64_t groups = Ceil(p.out_channels, channels), rows = p.batch / SharedRows();
  kernel_->LaunchInGroups({{groups, rows, 1}, {kernel_->group(), 1, 1}}, arguments);
}

}  // namespace caffe
