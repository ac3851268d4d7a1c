#include "caffe/library/chain.hpp"

#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {
namespace {

// On the host, shorter rows cost more for their stages than for their elements.
constexpr int64_t kHostColumns = 256;

using Kind = ElementFunction::Kind;
using Operand = ElementFunction::Operand;

// The host kernel has 5 bits for each kind.
constexpr int kKindBits = 5;
#define CAFFE_ONE(...) +1
static_assert(1 CAFFE_ELEMENT_FUNCTIONS(CAFFE_ONE) <= 1 << kKindBits);
#undef CAFFE_ONE

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
    kernel_ = builder.Body("blas/chain_stages").Build()->CreateKernel("chain_stages");
    return;
  }
  if (shape.channels == 1) columns_ = std::max<int64_t>(shape.count, 1);
  builder.Define("CHAIN(v, k, TABLE)", Text());
  builder.Define("CHAIN_CONSTANTS", constants_);
  builder.Define("CHAIN_SUMMANDS", sums_);
  std::set<std::string> files;
  for (const Kind kind : functions_) files.insert(ElementFunction::RowOf(kind).file);
  for (const std::string& file : files) builder.Body("epilogue/" + file);
  kernel_ = builder.Body("blas/chain").Build()->CreateKernel("chain");
}

std::string ChainOp::Text() const {
  std::string text = "v";
  int at = 0, summand = 0;
  for (const Kind kind : functions_) {
    text = ElementFunction{kind}.Text([&](char operand) {
      if (operand == 'v') return text;
      if (operand == 'u') return Concat("SUMMAND(", summand, ", k)");
      return Concat("TABLE(", at + (operand - 'a'), ", k)");
    });
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    summand += row.operand == Operand::kSummand;
    at += row.constants;
  }
  return "(" + text + ")";
}

void ChainOp::Run(DevicePtr table, DevicePtr x, std::span<const DevicePtr> summands,
                  DevicePtr y) const {
  if (shape_.count == 0) return;
  CAFFE_CHECK(static_cast<int>(summands.size()) == sums_, "a chain with ", sums_,
              " sums was given ", summands.size(), " summands");
  KernelArguments arguments;
  if (on_host_) {
    uint64_t numbers = 0;
    for (size_t s = 0; s < functions_.size(); ++s) {
      numbers |= static_cast<uint64_t>(functions_[s]) << (kKindBits * s);
    }
    arguments.append({rows_, shape_.count, columns_, by_column_ || shape_.channels > 1 ? width_ : 1,
                      by_column_ ? 1 : 0, static_cast<int>(functions_.size()), numbers});
  } else {
    arguments.append({shape_.count, columns_, shape_.channels});
  }
  arguments.push_back(constants_ > 0 ? table : BufferOf(y));
  arguments.push_back(x);
  for (size_t s = 0; s < kMaxSummands; ++s) {
    arguments.push_back(s < summands.size() ? summands[s] : x);
  }
  arguments.push_back(y);
  if (on_host_) {
    kernel_->Launch(LaunchRange(rows_, columns_), arguments);
  } else {
    kernel_->Launch(shape_.count, arguments);
  }
}

}  // namespace caffe
