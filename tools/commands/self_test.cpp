#include "commands/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/host_level.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/solver/solver.hpp"
#include "commands/self_test_families.hpp"

namespace caffe {
namespace {

using Family = SelfTestFamily;

// The largest numbers of a type, infinities, NaN and the smallest number, at some places of the
// first item. The largest ones are apart from each other, so that sums do not depend on their
// order.
void PutExtremes(DataType type, int64_t item, std::vector<double>* values) {
  const double largest = type == kHalf       ? 65504
                         : type == kBfloat16 ? 0x1.fep127
                         : type == kDouble   ? std::numeric_limits<double>::max()
                                             : std::numeric_limits<float>::max();
  const double smallest = type == kHalf ? 0x1p-24 : type == kDouble ? 0x1p-1074 : 0x1p-133;
  const double extremes[] = {largest,  NAN,      -INFINITY, smallest,
                             -largest, INFINITY, -smallest, -0.0};
  for (int64_t i = 0, e = 0; i < std::min<int64_t>(item, std::ssize(*values)); i += 13, ++e) {
    (*values)[i] = extremes[e % std::ssize(extremes)];
  }
}

// Numbers in (-1, 1), multiples of 1/128 that differ along the first axes and are never 0.
std::vector<double> Numbers(int64_t count, int64_t seed) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t step = (i * 37 + seed * 53 + i / 7) % 254;
    values[i] = static_cast<double>(step < 127 ? step - 127 : step - 126) / 128;
  }
  return values;
}

// Codes of a quantized blob, as stored.
std::vector<double> Codes(const BlobBase& blob) {
  const int bytes = static_cast<int>(blob.type().bytes());
  const auto* data = static_cast<const unsigned char*>(blob.host_data());
  std::vector<double> codes(blob.count());
  for (size_t i = 0; i < codes.size(); ++i) {
    unsigned code = 0;
    std::memcpy(&code, data + i * bytes, bytes);  // little endian
    codes[i] = code;
  }
  return codes;
}

std::vector<double> ValuesOf(const BlobBase& blob) {
  return blob.type().is_float() ? blob.DataAsDouble() : Codes(blob);
}

using Values = std::vector<std::pair<std::string, std::vector<double>>>;

NetParameter NetOf(const Family& family, DataType type) {
  const auto input = [](const std::string& name, const std::string& shape) {
    return Concat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { ",
                  shape, " } } ");
  };
  std::string text = family.inference ? "" : "force_backward: true ";
  text += input("x", family.shape);
  if (family.second) text += input("x2", family.shape);
  if (family.labels) text += input("label", family.label_shape);
  if (family.rois) text += input("rois", "shape { dim: 3 dim: 5 }");
  text += family.layers;
  // With this loss the gradient of y is y itself.
  if (family.gradient && type.is_float()) {
    text +=
        " layer { name: 'square' type: 'Power' bottom: 'y' top: 'square' loss_weight: 0.5 "
        "power_param { power: 2 } }";
  }
  NetParameter net;
  ParseTextProto(text, "self-test", &net);
  const auto type_number = static_cast<DataTypeProto>(type.info().proto);
  net.set_data_type(type_number);
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "MOE") continue;
    for (NetParameter& expert : *layer.mutable_moe_param()->mutable_expert_net()) {
      expert.set_data_type(type_number);  // otherwise experts compute in float
    }
  }
  return net;
}

// During its lifetime these libraries come first, before those that the user prefers.
class PreferredLibraries {
 public:
  explicit PreferredLibraries(const std::string& libraries) {
    if (libraries.empty()) return;
    if (const char* before = std::getenv(kVariable)) before_ = before;
    changed_ = true;
    setenv(kVariable, (libraries + (before_ ? "," + *before_ : "")).c_str(), 1);
  }
  ~PreferredLibraries() {
    if (!changed_) return;
    before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable);
  }
  PreferredLibraries(const PreferredLibraries&) = delete;
  PreferredLibraries& operator=(const PreferredLibraries&) = delete;

 private:
  static constexpr const char* kVariable = "CAFFE_LIBRARY";
  bool changed_ = false;
  std::optional<std::string> before_;
};

std::unique_ptr<Net> MakeNet(const Family& family, DataType type, Device* device, bool inference) {
  NetOptions options;
  options.device = device;
  options.seed = 1;
  options.phase = inference ? TEST : TRAIN;
  return std::make_unique<Net>(NetOf(family, type), options);
}
std::unique_ptr<Net> MakeNet(const Family& family, DataType type, Device* device) {
  return MakeNet(family, type, device, family.inference || !type.is_float());
}

void FillInputs(const Family& family, Net* net, bool extreme = false) {
  int64_t seed = 1;
  for (BlobBase* blob : net->input_blobs()) {
    std::vector<double> values = Numbers(blob->count(), seed++);
    if (extreme && blob == net->BlobByName("x").get()) {
      PutExtremes(blob->type(), blob->count() / blob->shape(0), &values);
    }
    if (family.labels && blob == net->BlobByName("label").get()) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 4);
    }
    if (family.rois && blob == net->BlobByName("rois").get()) {
      values = {2, 0, 0, 17, 17, 0, 3, 5, 12, 11, 2, -4, 8, 9, 30};
      if (extreme) {
        const std::vector<double> region{0, -INFINITY, NAN, INFINITY, 3e38};
        std::copy(region.begin(), region.end(), values.begin());
      }
    }
    blob->SetData(values);
  }
}

// The numbers that the codes of y mean, and y in double with the same weights, clamped to the range
// of codes. The unit is the difference of two neighbouring codes; 1 if y is float.
std::pair<Values, Values> RunDecoded(const Family& family, DataType type, Device* device) {
  auto exact = MakeNet(family, kDouble, device, true), net = MakeNet(family, type, device);
  exact->set_observe(true);
  FillInputs(family, exact.get());
  exact->Forward();
  NetParameter trained;  // weights and ranges
  exact->ToProto(&trained);
  net->CopyTrainedLayersFrom(trained);
  net->UsePlaceholderRanges();  // of blobs that exist in codes only
  FillInputs(family, net.get());
  net->Forward();
  const BlobBase& y = *net->BlobByName("y");
  std::vector<double> codes = ValuesOf(y), expected = exact->BlobByName("y")->DataAsDouble();
  if (y.type().is_float()) return {{{"y", codes}}, {{"y", expected}}};
  const QuantRange range = y.range();
  const double last = static_cast<double>(type.info().code_max);
  for (double& code : codes) code -= range.zero;
  for (double& value : expected) {
    value = std::clamp(value / range.scale, 0.0 - range.zero, last - range.zero);
  }
  return {{{"y", codes}}, {{"y", expected}}};
}

Values RunNet(const Family& family, DataType type, Device* device, bool extreme = false) {
  const auto made = MakeNet(family, type, device);
  Net& net = *made;
  if (!type.is_float()) net.UsePlaceholderRanges();
  FillInputs(family, &net, extreme);
  net.Forward();
  const BlobBase& y = *net.BlobByName("y");
  Values values{{"y", ValuesOf(y)}};
  if (!family.gradient || !type.is_float()) return values;
  net.ClearParamDiffs();
  net.Backward();
  values.emplace_back("gradient of x", net.BlobByName("x")->DiffAsDouble());
  if (family.second) values.emplace_back("gradient of x2", net.BlobByName("x2")->DiffAsDouble());
  for (size_t i = 0; i < net.learnable_params().size(); ++i) {
    values.emplace_back(Concat("gradient of parameter ", i),
                        net.learnable_params()[i]->DiffAsDouble());
  }
  return values;
}

// Ranges and histograms of extreme values, in several parts.
Values RunObservers(DataType type, Device* device) {
  const Family family{.shape = "shape { dim: 2 dim: 9000 }",
                      .layers =
                          "layer { name: 'tested' type: 'Power' bottom: 'x' top: 'y' "
                          "power_param { scale: 2 } }"};
  const auto net = MakeNet(family, type, device);
  net->set_observe(true);
  FillInputs(family, net.get(), true);
  net->Forward();
  Values values;
  for (const auto& [name, range] : net->Ranges()) {
    values.emplace_back("range of " + name, std::vector<double>{range.low, range.high});
  }
  for (const auto& [name, histogram] : net->Histograms()) {
    values.emplace_back("histogram of " + name,
                        std::vector<double>(histogram.counts.begin(), histogram.counts.end()));
  }
  return values;
}

// Blobs and weights are rounded to codes in float, and ranges follow the batches.
Values RunPseudo(DataType type, Device* device, bool extreme) {
  const Family family{
      .shape = "shape { dim: 5 dim: 70 }",
      .layers =
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'a' inner_product_param { "
          "num_output: 6 weight_filler { type: 'uniform' min: -0.1 max: 0.1 } } } "
          "layer { name: 'tanh' type: 'TanH' bottom: 'a' top: 'y' }"};
  const auto net = MakeNet(family, type, device);
  net->set_quantizer_mode(CAFFE_QUANT_PSEUDO);
  Values values;
  for (int i = 0; i < 2; ++i) {
    FillInputs(family, net.get(), extreme);
    net->ClearParamDiffs();
    net->Forward();
    net->Backward();
  }
  values.emplace_back("y", net->BlobByName("y")->DataAsDouble());
  values.emplace_back("gradient of x", net->BlobByName("x")->DiffAsDouble());
  for (const auto& [name, range] : net->Ranges()) {
    values.emplace_back("range of " + name, std::vector<double>{range.low, range.high});
  }
  return values;
}

Values RunSolver(const SelfTestTraining& training, DataType type, Device* device,
                 bool extreme = false) {
  SolverParameter parameter;
  const std::string& rule = training.rule;
  const bool adam = rule == "Adam";
  ParseTextProto(
      Concat(
          "type: '", rule, "' base_lr: 0.01 lr_policy: 'fixed' weight_decay: 0.01 ",
          "clip_gradients: 0.5 loss_scale: 8 random_seed: 1 ",
          adam || rule == "SGD" || rule == "Nesterov" || rule == "AdaDelta" ? "momentum: 0.9 " : "",
          "net_param { layer { name: 'in' type: 'Input' top: 'x' top: 't' input_param { ",
          training.x_shape, " ", training.t_shape, " } } ", training.layers,
          "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } }"),
      "self-test", &parameter);
  parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
  Solver solver(parameter, device);
  // No gradient is near 0: update rules that divide by its size would amplify rounding errors.
  for (const char* name : {"x", "t"}) {
    const auto& blob = solver.net()->BlobByName(name);
    std::vector<double> values = Numbers(blob->count(), 3);
    for (double& value : values) value = *name == 'x' ? std::abs(value) / 4 + 0.25 : value + 6;
    if (extreme && *name == 'x') PutExtremes(type, 1, &values);
    blob->SetData(values);
  }
  solver.Step(3);
  Values values;
  for (size_t i = 0; i < solver.net()->learnable_params().size(); ++i) {
    values.emplace_back(Concat("parameter ", i),
                        solver.net()->learnable_params()[i]->DataAsDouble());
  }
  return values;
}

// Sums have another order, and intermediate results are rounded: several units in the last place,
// for values around 1.
double Tolerance(DataType type, bool against_double) {
  if (!type.is_float()) return 0;
  if (type == kDouble) return 1e-10;
  if (type == kFloat) return 5e-5;
  const double step = type == kHalf ? 0x1p-11 : 0x1p-8;
  return (against_double ? 32 : 16) * step;
}

// The largest error of a sum of up to 70 rounded products, in codes.
constexpr double kCodes = 3;

void Compare(const Values& values, const Values& reference, double tolerance, SelfTestRow* row,
             bool absolute = false) {
  row->passed = values.size() == reference.size();
  if (!row->passed) row->message = "the numbers of results differ";
  for (size_t v = 0; v < std::min(values.size(), reference.size()); ++v) {
    const auto& [name, actual] = values[v];
    const auto& expected = reference[v].second;
    for (size_t i = 0; i < std::max(actual.size(), expected.size()); ++i) {
      const double a = i < actual.size() ? actual[i] : NAN;
      const double b = i < expected.size() ? expected[i] : NAN;
      const double size = absolute ? 1 : std::max(1.0, std::abs(b));
      const double difference = a == b ? 0 : std::abs(a - b) / size;
      const bool good = difference <= tolerance;  // false for NaN
      if (!good && row->passed) {
        row->message = Concat(name, ", element ", i, ": ", a, " instead of ", b);
        row->passed = false;
      }
      if (!(difference <= row->difference)) row->difference = difference;
    }
  }
}

// The same for results of extreme values: NaN equals NaN, and of sums that overflow only some need
// be infinite. What is computed from other values is compared as usual. `first`: of families that
// spread values, the part of the array that is not compared is 1 / first.
void CompareExtremes(const Values& values, const Values& reference, DataType type, double tolerance,
                     int64_t first, SelfTestRow* row) {
  const double huge = type == kHalf ? 0x1p12 : type == kDouble ? 0x1p1000 : 0x1p100;
  const auto large = [huge](double v) { return !(std::abs(v) < huge); };  // or NaN
  row->passed = values.size() == reference.size();
  if (!row->passed) row->message = "the numbers of results differ";
  for (size_t v = 0; v < std::min(values.size(), reference.size()); ++v) {
    const auto& [name, actual] = values[v];
    const auto& expected = reference[v].second;
    if (first > 0 && name.starts_with("gradient of parameter")) continue;
    for (size_t i = first > 0 ? actual.size() / first : 0;
         i < std::max(actual.size(), expected.size()); ++i) {
      const double a = i < actual.size() ? actual[i] : 0;
      const double b = i < expected.size() ? expected[i] : -1;
      const bool same = a == b || (large(a) && large(b));
      const double difference = same ? 0 : std::abs(a - b) / std::max(1.0, std::abs(b));
      if (!(difference <= tolerance) && row->passed) {
        row->message = Concat(name, ", element ", i, ": ", a, " instead of ", b);
        row->passed = false;
      }
      if (!(difference <= row->difference)) row->difference = difference;
    }
  }
}

constexpr char kPseudo[] = "Pseudo quantization";
// A sum that lies between two codes may be rounded to either: two of 255 steps of a range of 2.
constexpr double kPseudoStep = 0.02;

// During its lifetime the CPU's kernels are those of the lowest instruction level.
class LowestLevel {
 public:
  explicit LowestLevel(bool lowers) : level_(lowers ? HostLevel() : "") {
    if (lowers) SetHostLevel(HostLevels().front());
  }
  ~LowestLevel() {
    if (!level_.empty()) SetHostLevel(level_);
  }
  LowestLevel(const LowestLevel&) = delete;
  LowestLevel& operator=(const LowestLevel&) = delete;

 private:
  const std::string level_;
};

}  // namespace

std::set<std::string> SelfTestLayers() {
  std::set<std::string> types;
  for (const Family& family : SelfTestFamilyTable()) {
    const NetParameter net = NetOf(family, kFloat);
    for (const LayerParameter& layer : net.layer()) types.insert(layer.type());
  }
  return types;
}

std::vector<std::string> SelfTestFamilies() {
  std::vector<std::string> names;
  for (const Family& family : SelfTestFamilyTable()) names.push_back(family.name);
  for (const SelfTestTraining& training : SelfTestTrainings()) names.push_back(training.name);
  names.push_back(kPseudo);
  const size_t count = names.size();
  for (size_t i = 0; i < count; ++i) names.push_back(names[i] + kExtreme);
  names.push_back("Observers");
  return names;
}

void SelfTest(Device* device, const std::vector<DataType>& types,
              const std::function<void(const SelfTestRow&)>& report,
              const std::set<std::string>& names) {
  Device* cpu = Runtime::Get().cpu();
  for (DataType type : types) {
    // The CPU's narrow types are compared with its double, double with float, and the numbers that
    // its codes mean with double.
    const bool against_double = device == cpu;
    const DataType reference = !against_double ? type : type == kDouble ? kFloat : kDouble;
    const auto report_row = [&](const std::string& name, const auto& compare) {
      const bool extreme = name.ends_with(kExtreme);
      const std::string family =
          name.substr(0, name.size() - (extreme ? std::strlen(kExtreme) : 0));
      if (!names.empty() && !names.contains(family)) return;
      SelfTestRow row;
      row.device = device->info().id;
      row.type = type.name();
      row.family = name;
      const auto start = std::chrono::steady_clock::now();
      try {
        compare(&row);
      } catch (const std::exception& error) {
        row.passed = false;
        row.message = error.what();
      }
      row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report(row);
    };
    const auto test = [&](const std::string& name, double tolerance, const auto& run) {
      report_row(name, [&](SelfTestRow* row) {
        Compare(run(type, device), run(reference, cpu), tolerance, row);
      });
    };
    // Extreme values: another device is compared with the CPU, the CPU with its kernels for older
    // processors, in the same type.
    const auto test_extremes = [&](const std::string& name, int64_t first, const auto& run) {
      report_row(name, [&](SelfTestRow* row) {
        const Values values = run(device);
        const LowestLevel level(against_double);
        CompareExtremes(values, run(cpu), type, Tolerance(type, false), first, row);
      });
    };
    const double tolerance = Tolerance(reference == kFloat ? kFloat : type, against_double);
    if (type == kDouble && !device->info().fp64) {
      SelfTestRow row;
      row.device = device->info().id;
      row.type = type.name();
      row.family = "all";
      row.skipped = true;
      row.message = "the device has no double precision";
      report(row);
      continue;
    }
    for (const Family& family : SelfTestFamilyTable()) {
      if (!type.is_float() && !family.quantized) continue;
      const PreferredLibraries libraries(family.libraries);
      test_extremes(family.name + std::string(kExtreme), family.spreads ? 3 : 0,
                    [&](Device* d) { return RunNet(family, type, d, true); });
      if (!type.is_float() && against_double) {
        report_row(family.name, [&](SelfTestRow* row) {
          const auto [codes, expected] = RunDecoded(family, type, device);
          Compare(codes, expected, kCodes, row, true);
        });
        continue;
      }
      test(family.name, tolerance, [&](DataType t, Device* d) { return RunNet(family, t, d); });
    }
    if (!type.is_float()) continue;
    for (const SelfTestTraining& training : SelfTestTrainings()) {
      // The rate and the clipping factor are floats in every type.
      test(training.name, std::max(tolerance, 1e-6),
           [&](DataType t, Device* d) { return RunSolver(training, t, d); });
      test_extremes(training.name + kExtreme, 0,
                    [&](Device* d) { return RunSolver(training, type, d, true); });
    }
    test(kPseudo, std::max(tolerance, kPseudoStep),
         [&](DataType t, Device* d) { return RunPseudo(t, d, false); });
    test_extremes(kPseudo + std::string(kExtreme), 0,
                  [&](Device* d) { return RunPseudo(type, d, true); });
    test_extremes("Observers", 0, [&](Device* d) { return RunObservers(type, d); });
  }
}

}  // namespace caffe
