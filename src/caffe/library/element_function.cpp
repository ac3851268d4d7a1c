#include "caffe/library/element_function.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;
using Operand = ElementFunction::Operand;
using Row = ElementFunction::Row;
using Use = ElementFunction::Use;

double Logistic(double v) {
  return v < 0 ? std::exp(v) / (1 + std::exp(v)) : 1 / (1 + std::exp(-v));
}

// s + v s (1 - s), where s is the logistic function of beta v. Without the second term where s (1 -
// s) is 0: v may be infinite.
double SwishSlope(double v, double beta) {
  const double s = Logistic(beta * v), both = s * Logistic(-beta * v);
  return both == 0 ? s : s + beta * v * both;
}

// Kernels of epilogues have two constants.
#define CAFFE_CHECK_ROW(name, file, use, operand, constants, ...) \
  static_assert(Use::use == Use::kChain || constants <= 2, #name);
CAFFE_ELEMENT_FUNCTIONS(CAFFE_CHECK_ROW)
#undef CAFFE_CHECK_ROW

#define CAFFE_ROW(name, file, use, operand, constants, formula, gradient, value, slope, summary) \
  Row{#name,                                                                                     \
      #file,                                                                                     \
      Use::use,                                                                                  \
      Operand::operand,                                                                          \
      constants,                                                                                 \
      #formula,                                                                                  \
      #gradient,                                                                                 \
      []([[maybe_unused]] double v, [[maybe_unused]] double u, [[maybe_unused]] double a,        \
         [[maybe_unused]] double b, [[maybe_unused]] double c) -> double { return value; },      \
      []([[maybe_unused]] double v, [[maybe_unused]] double a, [[maybe_unused]] double b,        \
         [[maybe_unused]] double c) -> double { return slope; },                                 \
      summary},

const std::vector<Row>& Rows() {
  static const auto* const rows =
      new std::vector<Row>{Row{"None", "clip", Use::kLinear, Operand::kSame, 0, "v", "d",
                               [](double v, double, double, double, double) { return v; },
                               [](double, double, double, double) { return 1.0; }, ""},
                           CAFFE_ELEMENT_FUNCTIONS(CAFFE_ROW)};
  return *rows;
}
#undef CAFFE_ROW

// `text` with every name of one letter from `names` replaced by what `replace` gives for it.
std::string Replace(const std::string& text, std::string_view names,
                    const std::function<std::string(char)>& replace) {
  const auto is_word = [&text](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool alone = !(i > 0 && is_word(i - 1)) && !is_word(i + 1);
    const bool name = alone && names.find(text[i]) != std::string_view::npos;
    result += name ? replace(text[i]) : std::string(1, text[i]);
  }
  return result;
}

}  // namespace

bool Row::GradientReads(char name) const {
  return Replace(gradient, std::string(1, name), [](char) { return ""; }) != gradient;
}

const Row& ElementFunction::RowOf(Kind kind) { return Rows()[static_cast<size_t>(kind)]; }

const std::vector<Kind>& ElementFunction::Kinds() {
  static const auto* const kinds = [] {
    auto* const all = new std::vector<Kind>;
    for (size_t k = 1; k < Rows().size(); ++k) all->push_back(static_cast<Kind>(k));
    return all;
  }();
  return *kinds;
}

bool ElementFunction::HasSlope() const {
  return kind == Kind::kPReLU || kind == Kind::kLeaky || (kind == Kind::kReLU6 && a != 0);
}

std::string ElementFunction::name() const {
  std::string text = row().name;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (row().operand == Operand::kChannels) return text;
  for (const double constant : constants()) text += Concat(" ", constant);
  return text;
}

std::vector<double> ElementFunction::constants() const {
  const double all[] = {a, b, c};
  return {all, all + row().constants};
}

std::string ElementFunction::Text(const std::function<std::string(char)>& text) const {
  return Replace(row().formula, "vuabc", text);
}

std::shared_ptr<Program> FunctionProgram(Device* device, const TypeTriple& types, Kind kind) {
  const Row& row = ElementFunction::RowOf(kind);
  ProgramBuilder builder(device, "function " + row.name);
  builder.Types(types);
  if (device->host_accessible()) return builder.Body("neuron/functions").Build();
  builder.Define("FUNCTION_VALUE", "(" + row.formula + ")");
  builder.Define("FUNCTION_GRADIENT", "(" + row.gradient + ")");
  return builder.Body("epilogue/" + row.file).Body("neuron/function").Build();
}

}  // namespace caffe
