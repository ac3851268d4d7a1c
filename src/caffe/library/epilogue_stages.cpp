#include "caffe/library/epilogue_stages.hpp"

#include <limits>
#include <string>

#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A clip instead of none and ReLU.
ElementFunction AsBounds(const ElementFunction& activation) {
  if (activation.kind == Kind::kNone) return {Kind::kClip, -kInfinity, kInfinity};
  if (activation.kind == Kind::kReLU) return {Kind::kClip, 0, kInfinity};
  return activation;
}

}  // namespace

EpilogueStages::EpilogueStages(const Epilogue& epilogue)
    : activation_(AsBounds(epilogue.activation())), slopes_(epilogue.slopes) {
  if (const ResidualSum* sum = epilogue.sum()) {
    coefficient_ = sum->coefficient;
    const bool first = std::holds_alternative<ResidualSum>(epilogue.stages[0]);
    sum_ = first ? Sum::kBefore : Sum::kAfter;
  }
}

bool EpilogueStages::none() const { return bounds() && a() == -kInfinity && b() == kInfinity; }

void EpilogueStages::Define(ProgramBuilder* builder, const std::string& residual) const {
  if (bounds()) return;  // defined by kernels/epilogue/bounds.h
  std::string v = "v";
  const auto add = [&] {
    const ElementFunction sum{Kind::kSum};
    builder->Body("epilogue/" + sum.row().file);
    v = sum.Text([&](char operand) {
      return operand == 'v' ? v : operand == 'u' ? residual : std::string("coefficient");
    });
  };
  if (sum_ == Sum::kBefore) add();
  if (!clips() || a() != -kInfinity || b() != kInfinity) {
    const char* index = slope_axis() == 0 ? "0" : slope_axis() == 1 ? "row" : "column";
    const bool separate = activation_.row().operand == ElementFunction::Operand::kChannels;
    builder->Body("epilogue/" + activation_.row().file);
    v = activation_.Text([&](char operand) {
      if (operand == 'v') return v;
      if (separate) return std::string("LOAD(Mastertype, slopes, ") + index + ")";
      return std::string("activation_") + operand;
    });
  }
  if (sum_ == Sum::kAfter) add();
  builder->Define("EPILOGUE(v, row, column, at)", v);
}

void EpilogueStages::AddArguments(const EpilogueOperands& operands, DevicePtr y,
                                  KernelArguments* arguments) const {
  arguments->append({a(), b(), coefficient_, sum_ == Sum::kNone ? BufferOf(y) : operands.residual,
                     activation_.kind == Kind::kPReLU ? operands.slopes : BufferOf(y)});
}

void EpilogueStages::AddHostArguments(KernelArguments* arguments) const {
  arguments->append({slope_axis(), static_cast<int>(sum_), static_cast<int>(activation_.kind)});
}

}  // namespace caffe
