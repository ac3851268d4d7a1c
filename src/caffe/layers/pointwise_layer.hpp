#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/code_table.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

// The computation of an element-wise layer with its parameters.
struct PointwiseFormula {
  // The data that the gradient is computed from, besides the gradient of the top. In place, the
  // backward pass can read the top, but for the bottom a copy must be kept.
  enum class Gradient { kNone, kOfDiff, kOfBottom, kOfTop, kOfBoth };

  // The gradient reads what its text mentions, with the constants of the function.
  PointwiseFormula(const ElementFunction& function);

  ElementFunction function;  // y = function(x)
  Gradient gradient;
  // The constants a, b, c and e of the gradient.
  std::array<double, 4> gradient_constants;
};

// One element-wise layer type.
struct PointwiseRow {
  std::string type, summary;
  // Reads and checks the parameters; `where` begins messages.
  PointwiseFormula (*make)(const LayerParameter& parameter, const std::string& where);
  bool backward = true;
};

// All rows, in alphabetical order: those of include/caffe/library/element_functions.hpp with a
// summary, and those of pointwise_table.cpp.
const std::vector<PointwiseRow>& PointwiseRows();

// y = f(x) for each element, f being that of the layer's row.
//   dE/dx = f'(x) dE/dy
// bottom 0, top 0: any shape, the same. In place allowed.
// Types: float kinds; quant8 and quant16 forward, by a table of all codes (CodeTable), where y has
// a range of its own; a type of a user may have a function of its own (RegisterTypeFunction).
class Pointwise : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  const PointwiseFormula& formula() const { return formula_; }

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && types().compute.is_float() && ReadsBottom(); }
  bool ReadsBottom() const {
    return formula_.gradient == PointwiseFormula::Gradient::kOfBottom ||
           formula_.gradient == PointwiseFormula::Gradient::kOfBoth;
  }
  bool ReadsTop() const {
    return formula_.gradient == PointwiseFormula::Gradient::kOfTop ||
           formula_.gradient == PointwiseFormula::Gradient::kOfBoth;
  }

  PointwiseFormula formula_{ElementFunction()};
  InputCopy input_;
  CodeTable table_;                      // of quantized types
  std::shared_ptr<BlobBase> own_codes_;  // of a function of a user's type, else null
  std::unique_ptr<Kernel> forward_, backward_, look_up_;
};

}  // namespace caffe
