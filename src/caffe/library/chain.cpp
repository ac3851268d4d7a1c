#include "caffe/library/chain.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_stages.hpp"

namespace caffe {
namespace {

// On the host, shorter rows cost more for their stages than for their elements.
constexpr int64_t kHostColumns = 256;

using Kind = ElementFunction::Kind;
using Operand = ElementFunction::Operand;

}  // namespace

ChainOp::ChainOp(Device* device, DataType type, std::vector<Kind> functions, const Shape& shape)
    : functions_(std::move(functions)), shape_(shape), on_host_(device->host_accessible()) {
  for (const Kind kind : functions_) {
    constants_ += ElementFunction::RowOf(kind).constants;
    sums_ += ElementFunction::RowOf(kind).operand == Operand::kSummand;
  }
  CAFFE_CHECK(type.is_float(), "a chain of type ", type.name(), ": only float kinds have chains");
  CAFFE_CHECK(functions_.size() <= kMaxStages && sums_ <= kMaxSummands, "a chain has at most ",
              kMaxStages, " functions and ", kMaxSummands, " sums; this one has ",
              functions_.size(), " and ", sums_);
  CAFFE_CHECK(shape.channels > 0 && shape.inner > 0 && shape.count >= 0 &&
                  shape.count % (shape.channels * shape.inner) == 0,
              shape.count, " elements are not divisible into ", shape.channels, " channels of ",
              shape.inner);
  width_ = shape.channels;
  columns_ = shape.inner;
  ProgramBuilder builder(device, "chain");
  builder.Types(type);
  if (on_host_) {
    if (shape.channels == 1) {
      columns_ = 4 * kHostColumns;
    } else if (shape.inner == 1) {
      by_column_ = true;
      width_ *= std::max<int64_t>(kHostColumns / width_, 1);
      columns_ = width_;
    }
    rows_ = (shape.count + columns_ - 1) / columns_;
    kernel_ = builder.Body("blas/stages").Build()->CreateKernel("stages");
    return;
  }
  if (shape.channels == 1) columns_ = std::max<int64_t>(shape.count, 1);
  builder.Define("CHAIN(v, k, TABLE)", Text());
  builder.Define("CHAIN_CONSTANTS", constants_);
  builder.Define("CHAIN_SUMMANDS", sums_);
  AddStageFiles(functions_, &builder);
  kernel_ = builder.Body("blas/chain").Build()->CreateKernel("chain");
}

std::string ChainOp::Text() const {
  std::vector<int> constants, sums;  // of the functions before each one
  int at = 0, summand = 0;
  for (const Kind kind : functions_) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    constants.push_back(std::exchange(at, at + row.constants));
    sums.push_back(std::exchange(summand, summand + (row.operand == Operand::kSummand)));
  }
  const auto operand = [&](size_t stage, char name) {
    return name == 'u' ? Concat("SUMMAND(", sums[stage], ", k)")
                       : Concat("TABLE(", constants[stage] + (name - 'a'), ", k)");
  };
  return StagesText(functions_, operand);
}

void ChainOp::Run(DevicePtr table, DevicePtr x, std::span<const DevicePtr> summands,
                  DevicePtr y) const {
  if (shape_.count == 0) return;
  CAFFE_CHECK(static_cast<int>(summands.size()) == sums_, "a chain with ", sums_,
              " sums was given ", summands.size(), " summands");
  const auto term = [&](size_t i) { return i < summands.size() ? summands[i] : BufferOf(x); };
  const DevicePtr constants = constants_ > 0 ? table : BufferOf(y);
  if (!on_host_) {
    kernel_->Launch(shape_.count, {shape_.count, columns_, shape_.channels, constants, x, term(0),
                                   term(1), term(2), term(3), y});
    return;
  }
  // Rows belong to channels, unless columns do.
  const int64_t per = by_column_ ? 1 : width_, outer = per * columns_;
  kernel_->Launch(LaunchRange(rows_, columns_), {rows_,
                                                 columns_,
                                                 per,
                                                 outer,
                                                 columns_,
                                                 outer,
                                                 columns_,
                                                 0.0,
                                                 0.0,
                                                 0.0,
                                                 term(0),
                                                 constants,
                                                 by_column_ ? 2 : 1,
                                                 functions_.size(),
                                                 PackedKinds(functions_),
                                                 width_,
                                                 shape_.count,
                                                 term(1),
                                                 term(2),
                                                 term(3),
                                                 x,
                                                 0,
                                                 BufferOf(y),
                                                 y});
}

}  // namespace caffe
