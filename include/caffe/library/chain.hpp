#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

// A function of one element v with constants a, b, c; the formulas are in kernels/epilogue/. Numbers as
// in kernels/blas/chain_stages.h.
enum class ChainFormula {
  // Without constants.
  kReLU,
  kSigmoid,
  kTanH,
  kAbs,
  kBNLL,
  kSlope,      // v if v > 0, else a v; a may differ between channels
  kReLU6,      // a: the slope below 0
  kELU,        // a: alpha
  kSwish,      // a: beta
  kThreshold,  // 1 if v > a, else 0
  kConstant,   // a
  kSum,        // v + a u, where u is the element of another array
  kAffine,     // a v + b; a and b may differ between channels
  kClip,       // v clamped to [a, b]
  kExp,        // b e^(a v)
  kSquare,     // (a v + b)^2
  kLog,        // c ln(a v + b)
  kPower,      // (a v + b)^c
};

// The number of its constants.
int ConstantsOf(ChainFormula formula);

// A formula whose constants are the same for all elements.
struct ElementFunction {
  ChainFormula formula = ChainFormula::kReLU;
  std::vector<double> constants;

  bool operator==(const ElementFunction&) const = default;
  // The same function. Not for kNone and kPReLU.
  static ElementFunction Of(const Activation& activation);
};

// y = the formulas applied to x, one after the other, in one launch. All arrays have one float kind
// and the same order of elements; the arithmetic is that of the type, and y is rounded once. y may be
// x, but no summand.
class ChainOp {
 public:
  static constexpr int kMaxStages = 12;
  static constexpr int kMaxSummands = 4;

  // Element i belongs to channel (i / inner) % channels.
  struct Shape {
    int64_t count = 0, channels = 1, inner = 1;
  };
  ChainOp(Device* device, DataType type, std::vector<ChainFormula> formulas, const Shape& shape);
  // The constants of all formulas, in their order.
  int constants() const { return constants_; }
  // The table of constants has the master type and the shape [constants, width]. Column c holds those
  // of channel c % channels.
  int64_t width() const { return width_; }
  // `summands` are those of kSum, in the order of the formulas. `table` is not read if there are no
  // constants.
  void Run(DevicePtr table, DevicePtr x, std::span<const DevicePtr> summands, DevicePtr y) const;

 private:
  std::string Text() const;

  std::vector<ChainFormula> formulas_;
  Shape shape_;
  bool on_host_;
  int constants_ = 0, sums_ = 0;
  int64_t rows_ = 0, columns_ = 0, width_ = 1;
  bool by_column_ = false;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
