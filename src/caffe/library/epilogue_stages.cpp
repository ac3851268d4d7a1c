#include "caffe/library/epilogue_stages.hpp"

#include <limits>
#include <string>

#include "caffe/core/error.hpp"
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

std::string StagesText(const std::vector<Kind>& functions,
                       const std::function<std::string(size_t, char)>& operand) {
  std::string v = "v";
  for (size_t s = 0; s < functions.size(); ++s) {
    v = ElementFunction{functions[s]}.Text(
        [&](char name) { return name == 'v' ? v : operand(s, name); });
  }
  return "(" + v + ")";
}

void AddStageFiles(const std::vector<Kind>& functions, ProgramBuilder* builder) {
  for (const Kind kind : functions) builder->Body("epilogue/" + ElementFunction::RowOf(kind).file);
}

uint64_t PackedKinds(const std::vector<Kind>& functions) {
  constexpr int kBits = 5;
#define CAFFE_ONE(...) +1
  static_assert(1 CAFFE_ELEMENT_FUNCTIONS(CAFFE_ONE) <= 1 << kBits);
#undef CAFFE_ONE
  uint64_t packed = 0;
  for (size_t s = 0; s < functions.size(); ++s) {
    packed |= static_cast<uint64_t>(functions[s]) << (kBits * s);
  }
  return packed;
}

EpilogueStages::EpilogueStages(const Epilogue& epilogue)
    : activation_(AsBounds(epilogue.activation())), slopes_(epilogue.slopes) {
  const bool same = clips() && a() == -kInfinity && b() == kInfinity;
  for (const Epilogue::Stage& stage : epilogue.stages) {
    if (const auto* sum = std::get_if<ResidualSum>(&stage)) {
      coefficient_ = sum->coefficient;
      sums_ = true;
      stages_.push_back(Kind::kSum);
    } else if (!same) {
      stages_.push_back(activation_.kind);
    }
  }
  if (stages_.empty()) stages_.push_back(activation_.kind);
}

bool EpilogueStages::none() const { return bounds() && a() == -kInfinity && b() == kInfinity; }

void EpilogueStages::Define(ProgramBuilder* builder, const std::string& residual) const {
  if (bounds()) return;  // defined by kernels/epilogue/bounds.h
  const char* index = slope_axis() == 0 ? "0" : slope_axis() == 1 ? "row" : "column";
  const auto operand = [&](size_t stage, char name) -> std::string {
    if (name == 'u') return residual;
    if (stages_[stage] == Kind::kSum) return "coefficient";
    const bool separate = activation_.row().operand == ElementFunction::Operand::kChannels;
    if (separate) return Concat("LOAD(Mastertype, slopes, ", index, ")");
    return Concat("activation_", name);
  };
  AddStageFiles(stages_, builder);
  builder->Define("EPILOGUE(v, row, column, at)", StagesText(stages_, operand));
}

void EpilogueStages::AddArguments(const EpilogueOperands& operands, DevicePtr y,
                                  KernelArguments* arguments) const {
  arguments->append({a(), b(), coefficient_, sums_ ? operands.residual : BufferOf(y),
                     activation_.kind == Kind::kPReLU ? operands.slopes : BufferOf(y)});
}

void EpilogueStages::AddHostArguments(KernelArguments* arguments) const {
  arguments->append({slope_axis(), stages_.size(), PackedKinds(stages_)});
}

}  // namespace caffe
