#include "caffe/library/epilogue.hpp"

#include <cmath>

#include "caffe/core/error.hpp"

namespace caffe {

ElementFunction Epilogue::activation() const {
  for (const Stage& stage : stages) {
    if (const auto* found = std::get_if<ElementFunction>(&stage)) return *found;
  }
  return {};
}

const ResidualSum* Epilogue::sum() const {
  for (const Stage& stage : stages) {
    if (const auto* found = std::get_if<ResidualSum>(&stage)) return found;
  }
  return nullptr;
}

std::string Epilogue::name() const {
  std::string text;
  if (bias == Bias::kPerRow) text += " +row bias";
  if (bias == Bias::kPerColumn) text += " +column bias";
  for (const Stage& stage : stages) {
    if (const auto* sum = std::get_if<ResidualSum>(&stage)) {
      text += sum->coefficient == 1 ? " +sum" : Concat(" +sum ", sum->coefficient);
    } else {
      const ElementFunction& activation = std::get<ElementFunction>(stage);
      text += " +" + activation.name();
      const bool slopes_per = activation.kind == ElementFunction::Kind::kPReLU;
      if (slopes_per && slopes == Bias::kPerRow) text += " per row";
      if (slopes_per && slopes == Bias::kPerColumn) text += " per column";
    }
  }
  return text;
}

void Epilogue::Check(const std::string& what, DataType type) const {
  int sums = 0, activations = 0;
  for (const Stage& stage : stages) {
    const bool sum = std::holds_alternative<ResidualSum>(stage);
    ++(sum ? sums : activations);
    CAFFE_CHECK(!sum || std::isfinite(std::get<ResidualSum>(stage).coefficient), what,
                ": the coefficient of the residual is not finite");
    if (sum) continue;
    const ElementFunction& activation = std::get<ElementFunction>(stage);
    CAFFE_CHECK(activation.activation(), what, ": ", activation.name(),
                " is not an activation of epilogues");
    CAFFE_CHECK(activation.kind != ElementFunction::Kind::kClip || activation.a <= activation.b,
                what, ": min of ", activation.name(), " is larger than max");
  }
  CAFFE_CHECK(sums <= 1 && activations <= 1, what,
              ": an epilogue has at most one residual sum and ", "one activation; this one has ",
              sums, " and ", activations);
  using Kind = ElementFunction::Kind;
  const Kind kind = activation().kind;
  const bool codes = activation().linear();
  const bool sum_first = sums == 0 || std::holds_alternative<ResidualSum>(stages[0]);
  CAFFE_CHECK(!type.is_quantized() || (codes && sum_first), what, ": of codes of type ",
              type.name(), ", a sum and then ReLU, ReLU6, Clip or PReLU are the only stages, this ",
              "epilogue is", name());
  CAFFE_CHECK(
      !type.is_quantized() || sums == 0 || kind == Kind::kNone || activation() == kPlainReLU, what,
      ": behind a sum of codes of type ", type.name(),
      ", ReLU without a slope is the only activation, this epilogue is", name());
}

const char* Epilogue::Missing(const EpilogueOperands& operands, bool quantized,
                              bool factors) const {
  if (sum() && !operands.residual) return "residual";
  if (quantized) return activation().HasSlope() && !factors ? "factors of sums below 0" : nullptr;
  const bool slopes_needed = activation().kind == ElementFunction::Kind::kPReLU;
  return slopes_needed && !operands.slopes ? "slopes of PReLU" : nullptr;
}

}  // namespace caffe
