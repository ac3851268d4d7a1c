#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/library/element_functions.hpp"

namespace caffe {

class Device;
class Program;

// A function of one element with its constants. The functions are the rows of
// element_functions.hpp; the layer of that name computes the same one.
struct ElementFunction {
#define CAFFE_KIND(name, ...) k##name,
  // kNone: y = v.
  enum class Kind { kNone, CAFFE_ELEMENT_FUNCTIONS(CAFFE_KIND) };
#undef CAFFE_KIND
  // Where a function may be computed.
  enum class Use {
    kChain,   // in chains
    kCurve,   // and by an epilogue in float kinds
    kLinear,  // and by an epilogue in codes: two or three straight lines
  };
  // The operands that differ between elements.
  enum class Operand { kSame, kChannels, kSummand };
  // The facts about a kind.
  struct Row {
    std::string name;  // "ReLU"
    std::string file;  // kernels/epilogue/<file>.h
    Use use;
    Operand operand;
    int constants;
    // Texts of kernels, of v, u, a, b and c; of d, v, y, a, b, c and e.
    std::string formula, gradient;
    double (*value)(double v, double u, double a, double b, double c);
    double (*slope)(double v, double a, double b, double c);
    std::string summary;
    // Whether the gradient mentions d, v or y.
    bool GradientReads(char name) const;
  };

  Kind kind = Kind::kNone;
  // a: the slope of Leaky and ReLU6 below 0, min of Clip, alpha of ELU, beta of Swish. b: max of
  // Clip. PReLU's slopes, and affine maps of channels, are operands.
  double a = 0, b = 0, c = 0;

  bool operator==(const ElementFunction&) const = default;
  // All kinds but kNone.
  static const std::vector<Kind>& Kinds();
  static const Row& RowOf(Kind kind);
  const Row& row() const { return RowOf(kind); }
  // May be a stage of an epilogue.
  bool activation() const { return row().use != Use::kChain; }
  // kNone, or may be a stage of an epilogue in codes.
  bool linear() const { return row().use == Use::kLinear; }
  // Values below 0 have a slope.
  bool HasSlope() const;
  // "relu", "leaky 0.1", "clip -1 6".
  std::string name() const;
  // The constants of the row.
  std::vector<double> constants() const;
  // The function and its derivative, in double. u: the other element of kSum.
  double value(double v, double u = 0) const { return row().value(v, u, a, b, c); }
  double slope(double v) const { return row().slope(v, a, b, c); }
  // The text of kernels; `text` gives that of v, u, a, b or c.
  std::string Text(const std::function<std::string(char)>& text) const;
};

// y = max(v, 0).
inline constexpr ElementFunction kPlainReLU{ElementFunction::Kind::kReLU};

// function_forward and function_backward of kernels/neuron/.
std::shared_ptr<Program> FunctionProgram(Device* device, const TypeTriple& types,
                                         ElementFunction::Kind kind);

}  // namespace caffe
