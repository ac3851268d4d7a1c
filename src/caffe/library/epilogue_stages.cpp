#include "caffe/library/epilogue_stages.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The function of an activation, and its file in kernels/epilogue/.
struct Text {
  const char* file;
  std::string call;
};

Text TextOf(ActivationFormula formula, const std::string& v, const std::string& slope) {
  switch (formula) {
    case ActivationFormula::kBounds:
      return {"clip", "clip_value(" + v + ", activation_a, activation_b)"};
    case ActivationFormula::kLeaky: return {"relu", "leaky_value(" + v + ", 1, activation_a)"};
    case ActivationFormula::kReLU6: return {"relu6", "relu6_value(" + v + ", activation_a)"};
    case ActivationFormula::kELU: return {"elu", "elu_value(" + v + ", activation_a)"};
    case ActivationFormula::kSigmoid: return {"sigmoid", "sigmoid_value(" + v + ")"};
    case ActivationFormula::kTanH: return {"tanh", "tanh_value(" + v + ")"};
    case ActivationFormula::kSwish: return {"swish", "swish_value(" + v + ", activation_a)"};
    case ActivationFormula::kSlopes: return {"relu", "leaky_value(" + v + ", 1, " + slope + ")"};
  }
  return {};
}

}  // namespace

EpilogueStages::EpilogueStages(const Epilogue& epilogue)
    : a_(-kInfinity), b_(kInfinity), slopes_(epilogue.slopes) {
  const Activation activation = epilogue.activation();
  if (const ResidualSum* sum = epilogue.sum()) {
    coefficient_ = sum->coefficient;
    const bool first = std::holds_alternative<ResidualSum>(epilogue.stages[0]);
    sum_ = first ? Sum::kBefore : Sum::kAfter;
  }
  using Kind = Activation::Kind;
  switch (activation.kind) {
    case Kind::kNone: return;
    case Kind::kReLU:
      if (activation.a == 0) {
        a_ = 0;
        return;
      }
      formula_ = ActivationFormula::kLeaky;
      break;
    case Kind::kClip: b_ = activation.b; break;
    case Kind::kReLU6: formula_ = ActivationFormula::kReLU6; break;
    case Kind::kELU: formula_ = ActivationFormula::kELU; break;
    case Kind::kSigmoid: formula_ = ActivationFormula::kSigmoid; break;
    case Kind::kTanH: formula_ = ActivationFormula::kTanH; break;
    case Kind::kSwish: formula_ = ActivationFormula::kSwish; break;
    case Kind::kPReLU: formula_ = ActivationFormula::kSlopes; break;
  }
  a_ = activation.a;
}

bool EpilogueStages::none() const { return bounds() && a_ == -kInfinity && b_ == kInfinity; }

void EpilogueStages::Define(ProgramBuilder* builder, const std::string& residual) const {
  if (bounds()) return;  // defined by kernels/epilogue/bounds.h
  std::string v = "v";
  const auto add = [&] {
    builder->Body("epilogue/sum");
    v = "sum_value(" + v + ", " + residual + ", coefficient)";
  };
  if (sum_ == Sum::kBefore) add();
  if (formula_ != ActivationFormula::kBounds || a_ != -kInfinity || b_ != kInfinity) {
    const char* index = slope_axis() == 0 ? "0" : slope_axis() == 1 ? "row" : "column";
    const Text text = TextOf(formula_, v, std::string("LOAD(Mastertype, slopes, ") + index + ")");
    builder->Body(std::string("epilogue/") + text.file);
    v = text.call;
  }
  if (sum_ == Sum::kAfter) add();
  builder->Define("EPILOGUE(v, row, column, at)", v);
}

void EpilogueStages::AddArguments(const EpilogueOperands& operands, DevicePtr y,
                                  KernelArguments* arguments) const {
  arguments->append({a_, b_, coefficient_, sum_ == Sum::kNone ? BufferOf(y) : operands.residual,
                     formula_ == ActivationFormula::kSlopes ? operands.slopes : BufferOf(y)});
}

void EpilogueStages::AddHostArguments(KernelArguments* arguments) const {
  arguments->append({slope_axis(), static_cast<int>(sum_), static_cast<int>(formula_)});
}

}  // namespace caffe
