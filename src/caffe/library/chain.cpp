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

// The function of a formula, its file in kernels/epilogue/, and its arguments after v.
struct Text {
  const char *file, *function;
  std::string arguments;
};

// `constant(j)`: the text of constant j.
template <class Constant> Text TextOf(ChainFormula formula, int summand, const Constant& constant) {
  const auto constants = [&](int count) {
    std::string text;
    for (int j = 0; j < count; ++j) text += ", " + constant(j);
    return text;
  };
  using Formula = ChainFormula;
  switch (formula) {
    case Formula::kReLU: return {"relu", "relu_value", ", 1"};
    case Formula::kSigmoid: return {"sigmoid", "sigmoid_value", ""};
    case Formula::kTanH: return {"tanh", "tanh_value", ""};
    case Formula::kAbs: return {"absval", "absval_value", ""};
    case Formula::kBNLL: return {"bnll", "bnll_value", ""};
    case Formula::kSlope: return {"relu", "leaky_value", ", 1" + constants(1)};
    case Formula::kReLU6: return {"relu6", "relu6_value", constants(1)};
    case Formula::kELU: return {"elu", "elu_value", constants(1)};
    case Formula::kSwish: return {"swish", "swish_value", constants(1)};
    case Formula::kThreshold: return {"threshold", "threshold_value", constants(1)};
    case Formula::kConstant: break;  // no function
    case Formula::kSum:
      return {"sum", "sum_value", Concat(", SUMMAND(", summand, ", k)") + constants(1)};
    case Formula::kAffine: return {"power", "linear_value", constants(2)};
    case Formula::kClip: return {"clip", "clip_value", constants(2)};
    case Formula::kExp: return {"exp", "exp_value", constants(2)};
    case Formula::kSquare: return {"power", "square_value", constants(2)};
    case Formula::kLog: return {"log", "log_value", constants(3)};
    case Formula::kPower: return {"power", "power_value", constants(3)};
  }
  return {"", "", ""};
}

}  // namespace

int ConstantsOf(ChainFormula formula) {
  if (formula < ChainFormula::kSlope) return 0;
  if (formula < ChainFormula::kAffine) return 1;
  return formula < ChainFormula::kLog ? 2 : 3;
}

ElementFunction ElementFunction::Of(const Activation& activation) {
  const double a = activation.a, b = activation.b;
  using Kind = Activation::Kind;
  switch (activation.kind) {
    case Kind::kReLU:
      if (a == 0) return {ChainFormula::kReLU, {}};
      return {ChainFormula::kSlope, {a}};
    case Kind::kReLU6: return {ChainFormula::kReLU6, {a}};
    case Kind::kClip: return {ChainFormula::kClip, {a, b}};
    case Kind::kELU: return {ChainFormula::kELU, {a}};
    case Kind::kSigmoid: return {ChainFormula::kSigmoid, {}};
    case Kind::kTanH: return {ChainFormula::kTanH, {}};
    case Kind::kSwish: return {ChainFormula::kSwish, {a}};
    case Kind::kNone:
    case Kind::kPReLU: break;
  }
  CAFFE_THROW("the activation ", activation.name(), " has no formula with constants");
}

ChainOp::ChainOp(Device* device, DataType type, std::vector<ChainFormula> formulas,
                 const Shape& shape)
    : formulas_(std::move(formulas)), shape_(shape), on_host_(device->host_accessible()) {
  for (const ChainFormula formula : formulas_) {
    constants_ += ConstantsOf(formula);
    sums_ += formula == ChainFormula::kSum;
  }
  CAFFE_CHECK(type.is_float(), "a chain of type ", type.name(), ": only float kinds have chains");
  CAFFE_CHECK(formulas_.size() <= kMaxStages && sums_ <= kMaxSummands, "a chain has at most ",
              kMaxStages, " formulas and ", kMaxSummands, " sums; this one has ", formulas_.size(),
              " and ", sums_);
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
  for (const ChainFormula formula : formulas_) {
    const char* file = TextOf(formula, 0, [](int) { return std::string(); }).file;
    if (*file) files.insert(file);
  }
  for (const std::string& file : files) builder.Body("epilogue/" + file);
  kernel_ = builder.Body("blas/chain").Build()->CreateKernel("chain");
}

std::string ChainOp::Text() const {
  std::string text = "v";
  int at = 0, summand = 0;
  for (const ChainFormula formula : formulas_) {
    const auto constant = [&](int j) { return Concat("TABLE(", at + j, ", k)"); };
    if (formula == ChainFormula::kConstant) {
      text = constant(0);
    } else {
      const auto one = TextOf(formula, summand, constant);
      text = std::string(one.function) + "(" + text + one.arguments + ")";
    }
    summand += formula == ChainFormula::kSum;
    at += ConstantsOf(formula);
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
    for (size_t s = 0; s < formulas_.size(); ++s) {
      numbers |= static_cast<uint64_t>(formulas_[s]) << (5 * s);
    }
    arguments.append({rows_, shape_.count, columns_, by_column_ || shape_.channels > 1 ? width_ : 1,
                      by_column_ ? 1 : 0, static_cast<int>(formulas_.size()), numbers});
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
