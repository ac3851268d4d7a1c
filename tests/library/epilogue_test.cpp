// The stages of epilogues: every row of the tables against the definition in double, and bit for
// bit against the layers that they stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "caffe/core/error.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/layout_runs.hpp"
#include "library/library_support.hpp"
#include "support/epilogues.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;
using Bias = Epilogue::Bias;
using Kind = ElementFunction::Kind;

struct TypePair {
  DataType in, out;
};
const TypePair kPairs[] = {{kFloat, kFloat}, {kDouble, kDouble},     {kHalf, kHalf},
                           {kHalf, kFloat},  {kBfloat16, kBfloat16}, {kBfloat16, kFloat}};

bool Supports(Device* device, DataType type) { return type != kDouble || device->info().fp64; }

// Each structure of stages is a program of its own on devices. There, types other than float have
// two of them. PoCL, which takes seconds for a program, has each activation behind a sum.
bool Worthwhile(Device* device, const TypePair& types, const Epilogue& epilogue) {
  if (device->host_accessible()) return true;
  const bool sum = epilogue.sum() != nullptr;
  const bool first = sum && std::holds_alternative<ResidualSum>(epilogue.stages[0]);
  const ElementFunction f = epilogue.activation();
  const bool relu = f == kPlainReLU;
  if (types.in != kFloat) return first && (relu || f.kind == Kind::kPReLU);
  if (!device->info().is_cpu_type || first) return true;
  return relu || (!sum && (f.kind == Kind::kClip || f.kind == Kind::kNone));
}

GemmDescriptor Product(const TypePair& types) {
  GemmDescriptor d;
  d.m = 19;
  d.n = 37;
  d.k = 13;
  d.in = types.in;
  d.out = types.out;
  d.epilogue.bias_type = types.in == kDouble ? kDouble : kFloat;
  return d;
}

ConvDescriptor Conv(const TypePair& types, int64_t batch, int64_t in, Shape input, int64_t out,
                    Shape kernel, Shape stride = {}, Shape pad = {}, int64_t group = 1) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry.input = std::move(input);
  d.geometry.kernel = std::move(kernel);
  d.geometry.stride = std::move(stride);
  d.geometry.pad = std::move(pad);
  d.in = types.in;
  d.out = types.out;
  d.epilogue.bias_type = d.master();
  return d;
}

// Convolutions that every row of the tables has one of: Winograd, groups, points, depthwise.
std::vector<ConvDescriptor> Convolutions(const TypePair& types) {
  return {Conv(types, 18, 8, {6, 7}, 9, {3, 3}, {}, {1, 1}),
          Conv(types, 3, 4, {7, 6}, 6, {3, 2}, {2, 1}, {1, 1}, 2),
          Conv(types, 2, 5, {4, 4}, 7, {1, 1}),
          Conv(types, 3, 6, {9, 8}, 6, {3, 3}, {2, 2}, {1, 1}, 6)};
}

// The operands of one operator and its result, on a device.
class GemmRun {
 public:
  GemmRun(Device* device, const GemmDescriptor& d)
      : device_(device),
        a_(device, d.in, Values(d.m * d.k, 1)),
        b_(device, d.in, Values(d.k * d.n, 2)),
        bias_(device, d.epilogue.bias_type, Values(std::max(d.m, d.n), 3)),
        residual_(device, d.out, Values(d.m * d.n, 4)),
        slopes_(device, d.epilogue.bias_type, Values(std::max(d.m, d.n), 5)) {}
  std::vector<double> operator()(const std::string& library, const GemmDescriptor& d) const {
    const auto op = Multiplexer::GemmBy(library, device_, d);
    const Array c(device_, d.out, std::vector<double>(d.m * d.n, 99));
    GemmArguments arguments{a_, b_, c};
    if (d.epilogue.bias != Bias::kNone) arguments.bias = bias_;
    arguments.epilogue = {residual_, slopes_};
    test::Run(*op, device_, arguments);
    return c.Read();
  }

 private:
  Device* device_;
  const Array a_, b_, bias_, residual_, slopes_;
};

class ConvRun {
 public:
  ConvRun(Device* device, ConvDescriptor d, std::vector<double> x)
      : device_(device),
        values_(x),
        weights_(device, d.in, Values(d.weight_count(), 2)),
        bias_(device, d.master(), Values(d.out_channels, 3)),
        residual_(device, d.out, Residuals(d)),
        slopes_(device, d.master(), Values(d.out_channels, 5)) {}
  static std::vector<double> Residuals(const ConvDescriptor& d) { return Values(Count(d), 4); }
  static int64_t Count(ConvDescriptor d) {
    d.Normalize();
    return d.batch * d.out_channels * d.geometry.output_count();
  }
  // In C order, whatever the layout of y is.
  std::vector<double> operator()(const std::string& library, const ConvDescriptor& d) const {
    const test::LayoutRun run{library, d};
    const auto op = Multiplexer::ConvolutionBy(library, device_, d);
    const Array y(device_, d.out, std::vector<double>(Count(d), 99));
    const Array x(device_, d.in, run.X(values_)), residual(device_, d.out, run.Y(Residuals(d)));
    test::Memory memory(device_, op.get());
    ConvArguments arguments{x, weights_, {}, {}, y};
    if (d.epilogue.bias != Bias::kNone) arguments.bias = bias_;
    arguments.epilogue = {residual, slopes_};
    op->Forward(memory(arguments));
    return run.FromY(y.Read());
  }
  const Array& residual() const { return residual_; }
  const Array& slopes() const { return slopes_; }

 private:
  Device* device_;
  const std::vector<double> values_;
  const Array weights_, bias_, residual_, slopes_;
};

std::vector<double> Inputs(const ConvDescriptor& d) {
  return Values(d.batch * d.in_channels * d.geometry.input_count(), 1);
}

TEST(EpilogueTest, StagesOfProductsEqualTheDefinition) {
  for (const TypePair& types : kPairs) {
    GemmDescriptor d = Product(types);
    const auto a = Values(d.m * d.k, 1), b = Values(d.k * d.n, 2);
    const auto bias = Values(d.n, 3), residual = Values(d.m * d.n, 4), slopes = Values(d.n, 5);
    for (Device* device : AllDevices()) {
      if (!Supports(device, d.in)) continue;
      const GemmRun run(device, d);
      int turn = 0;
      for (const ElementFunction& activation : test::Activations()) {
        for (const auto& stages : test::StagesWith(activation)) {
          for (const Bias axis : {Bias::kNone, Bias::kPerRow, Bias::kPerColumn}) {
            d.epilogue.bias = axis;
            d.epilogue.stages = stages;
            d.epilogue.slopes = static_cast<Bias>(turn++ % 3);
            if (!Worthwhile(device, types, d.epilogue)) continue;
            std::vector<double> expected;
            for (int64_t i = 0; i < d.m; ++i) {
              for (int64_t j = 0; j < d.n; ++j) {
                double v = axis == Bias::kPerRow ? bias[i] : axis == Bias::kNone ? 0 : bias[j];
                for (int64_t p = 0; p < d.k; ++p) v += a[i * d.k + p] * b[p * d.n + j];
                const Bias along = d.epilogue.slopes;
                const double slope = slopes[along == Bias::kPerRow      ? i
                                            : along == Bias::kPerColumn ? j
                                                                        : 0];
                expected.push_back(test::Stages(d.epilogue, v, residual[i * d.n + j], slope));
              }
            }
            for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
              test::ExpectNear(run(library, d), expected, test::Tolerance(d.out),
                               device->info().id + " " + library + " " + d.name());
            }
          }
        }
      }
    }
  }
}

// The definition of a convolution's sums, bias included.
std::vector<double> Sums(ConvDescriptor d, const std::vector<double>& x) {
  d.Normalize();
  const auto w = Values(d.weight_count(), 2), bias = Values(d.out_channels, 3);
  const ConvGeometry& g = d.geometry;
  const Shape out = g.output();
  const int64_t per_in = d.in_channels / d.group, per_out = d.out_channels / d.group;
  std::vector<double> y;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t c = 0; c < d.out_channels; ++c) {
      for (int64_t oh = 0; oh < out[0]; ++oh) {
        for (int64_t ow = 0; ow < out[1]; ++ow) {
          double v = d.epilogue.bias == Bias::kNone ? 0 : bias[c];
          for (int64_t i = 0; i < per_in; ++i) {
            for (int64_t kh = 0; kh < g.kernel[0]; ++kh) {
              for (int64_t kw = 0; kw < g.kernel[1]; ++kw) {
                const int64_t h = oh * g.stride[0] - g.pad[0] + kh;
                const int64_t u = ow * g.stride[1] - g.pad[1] + kw;
                if (h < 0 || h >= g.input[0] || u < 0 || u >= g.input[1]) continue;
                const int64_t channel = n * d.in_channels + c / per_out * per_in + i;
                v += x[(channel * g.input[0] + h) * g.input[1] + u] *
                     w[((c * per_in + i) * g.kernel[0] + kh) * g.kernel[1] + kw];
              }
            }
          }
          y.push_back(v);
        }
      }
    }
  }
  return y;
}

TEST(EpilogueTest, StagesOfConvolutionsEqualTheDefinition) {
  std::map<std::string, int> runs;
  for (const TypePair& types : kPairs) {
    for (ConvDescriptor d : Convolutions(types)) {
      d.Normalize();
      const auto x = Inputs(d), slopes = Values(d.out_channels, 5);
      const auto residual = Values(ConvRun::Count(d), 4);
      std::vector<double> sums[2];
      for (const Bias axis : {Bias::kNone, Bias::kPerRow}) {
        d.epilogue.bias = axis;
        sums[axis == Bias::kPerRow] = Sums(d, x);
      }
      double largest = 1;
      for (const double sum : sums[1]) largest = std::max(largest, std::abs(sum));
      const int64_t positions = d.geometry.output_count();
      for (Device* device : AllDevices()) {
        if (!Supports(device, d.in)) continue;
        const ConvRun run(device, d, x);
        int turn = 0;
        for (const ElementFunction& activation : test::Activations()) {
          for (const auto& stages : test::StagesWith(activation)) {
            for (const Bias axis : {Bias::kNone, Bias::kPerRow}) {
              d.epilogue.bias = axis;
              d.epilogue.stages = stages;
              d.epilogue.slopes = turn++ % 4 < 2 ? Bias::kNone : Bias::kPerRow;
              if (!Worthwhile(device, types, d.epilogue)) continue;
              std::vector<double> expected = sums[axis == Bias::kPerRow];
              for (size_t i = 0; i < expected.size(); ++i) {
                const int64_t c = static_cast<int64_t>(i) / positions % d.out_channels;
                const double slope = slopes[d.epilogue.slopes == Bias::kNone ? 0 : c];
                expected[i] = test::Stages(d.epilogue, expected[i], residual[i], slope);
              }
              for (const test::LayoutRun& one : test::LayoutRuns(device, d)) {
                const std::string& library = one.library;
                ++runs[library];
                // Transformed sums are right to digits of the largest, which may be beyond a bound.
                const double scale =
                    library == "winograd" || test::ChoosesAlgorithms(device, library) ? largest : 1;
                test::ExpectNear(run(library, one.descriptor), expected,
                                 scale * test::Tolerance(device, library, d.out),
                                 device->info().id + " " + library + " " + one.descriptor.name() +
                                     d.epilogue.name());
              }
            }
          }
        }
      }
    }
  }
  for (const char* library : {"depthwise", "native"}) EXPECT_GT(runs[library], 100) << library;
}

// The kernels of the layers, one launch for each stage.
class Unfused {
 public:
  Unfused(Device* device, int64_t channels, int64_t positions)
      : device_(device), channels_(channels), positions_(positions) {}

  std::vector<double> operator()(const Epilogue& epilogue, std::vector<double> v,
                                 const ConvRun& operands) const {
    const int64_t n = static_cast<int64_t>(v.size());
    for (const Epilogue::Stage& stage : epilogue.stages) {
      const Array x(device_, kFloat, v), y(device_, kFloat, v);
      const DevicePtr in = x, out = y;
      if (const auto* sum = std::get_if<ResidualSum>(&stage)) {
        Make("blas/eltwise", "eltwise_sum")
            ->Launch(n, {n, 2, in, DevicePtr(operands.residual()), in, in, 1.0,
                         static_cast<double>(sum->coefficient), 0.0, 0.0, out});
      } else {
        Activate(std::get<ElementFunction>(stage), epilogue, n, in, operands, out);
      }
      v = y.Read();
    }
    return v;
  }

 private:
  std::unique_ptr<Kernel> Make(const char* body, const char* kernel) const {
    return ProgramBuilder(device_, body).Types(kFloat).Body(body).Build()->CreateKernel(kernel);
  }

  void Activate(const ElementFunction& f, const Epilogue& epilogue, int64_t n, DevicePtr x,
                const ConvRun& operands, DevicePtr y) const {
    if (f.kind == Kind::kReLU) {
      Make("neuron/relu", "relu_forward")->Launch(n, {n, x, y, 1.0});
    } else if (f.kind == Kind::kLeaky) {
      Make("neuron/relu", "relu_forward_slope")->Launch(n, {n, x, y, 1.0, f.a});
    } else if (f.kind == Kind::kPReLU) {
      const int64_t rows = n / positions_;
      const int64_t channels = epilogue.slopes == Bias::kNone ? 1 : channels_;
      Make("neuron/prelu", "prelu_rows")
          ->Launch({rows, positions_},
                   {rows, positions_, channels, x, DevicePtr(operands.slopes()), y});
    } else if (f.kind != Kind::kNone) {
      FunctionProgram(device_, TypeTriple::Equal(kFloat), f.kind)
          ->CreateKernel("function_forward")
          ->Launch(n, {n, x, y, static_cast<int>(f.kind), f.a, f.b, f.c});
    }
  }

  Device* device_;
  int64_t channels_, positions_;
};

// The same bits, but for those of NaN.
size_t Different(const std::vector<double>& a, const std::vector<double>& b) {
  size_t different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    different += !(a[i] == b[i]) || std::signbit(a[i]) != std::signbit(b[i]);
  }
  return different;
}

TEST(EpilogueTest, InFloatAFusedOperatorGivesTheBitsOfTheLayers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (ConvDescriptor d : Convolutions({kFloat, kFloat})) {
    d.Normalize();
    // Sums that are small, large, infinite and NaN.
    auto x = Inputs(d);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 0.01 : i % 3 == 1 ? 0.3 : 1;
    x[5] = std::nan("");
    x[x.size() / 2] = kInfinity;
    x[x.size() - 3] = -kInfinity;
    for (Device* device : AllDevices()) {
      const ConvRun run(device, d, x);
      const Unfused unfused(device, d.out_channels, d.geometry.output_count());
      for (const ElementFunction& activation : test::Activations()) {
        for (const auto& stages : test::StagesWith(activation)) {
          for (const Bias axis : {Bias::kNone, Bias::kPerRow}) {
            ConvDescriptor with = d;
            with.epilogue.bias = axis;
            with.epilogue.stages = stages;
            with.epilogue.slopes = axis;
            if (!Worthwhile(device, {kFloat, kFloat}, with.epilogue)) continue;
            for (const test::LayoutRun& one : test::LayoutRuns(device, with)) {
              if (test::ChoosesAlgorithms(device, one.library)) continue;
              const ConvDescriptor& fused = one.descriptor;
              ConvDescriptor plain = fused;
              plain.epilogue.stages.clear();
              const auto expected = unfused(fused.epilogue, run(one.library, plain), run);
              EXPECT_EQ(Different(run(one.library, fused), expected), 0u)
                  << device->info().id << " " << one.library << " " << fused.name()
                  << fused.epilogue.name();
            }
          }
        }
      }
    }
  }
}

// The sums, the residual and the activation are float until the result is stored. Libraries that
// store products in half by themselves (cuBLAS) round these, too.
TEST(EpilogueTest, HalfKindsAreRoundedOnce) {
  for (const DataType type : {kHalf, kBfloat16}) {
    for (ConvDescriptor d : Convolutions({type, type})) {
      d.Normalize();
      d.epilogue.bias = Bias::kPerRow;
      const auto x = Inputs(d);
      for (Device* device : AllDevices()) {
        const ConvRun narrow(device, d, x);
        ConvDescriptor wide_stored = d;
        wide_stored.out = kFloat;
        const ConvRun run(device, wide_stored, x);
        for (const ElementFunction& activation : test::Activations()) {
          for (const auto& stages : test::StagesWith(activation)) {
            d.epilogue.stages = stages;
            if (!Worthwhile(device, {type, type}, d.epilogue)) continue;
            for (const test::LayoutRun& one : test::LayoutRuns(device, d)) {
              if (one.library == "cublas" || test::ChoosesAlgorithms(device, one.library)) continue;
              ConvDescriptor wide = one.descriptor;
              wide.out = kFloat;
              const Array rounded(device, type, run(one.library, wide));
              EXPECT_EQ(Different(narrow(one.library, one.descriptor), rounded.Read()), 0u)
                  << device->info().id << " " << one.library << " " << one.descriptor.name()
                  << d.epilogue.name();
            }
          }
        }
      }
    }
  }
}

TEST(EpilogueTest, MistakesAreErrors) {
  Device* cpu = Runtime::Get().cpu();
  ConvDescriptor d = Conv({kFloat, kFloat}, 1, 2, {4, 4}, 3, {3, 3});
  const auto refused = [&](std::vector<Epilogue::Stage> stages) {
    ConvDescriptor wrong = d;
    wrong.epilogue.stages = std::move(stages);
    try {
      Multiplexer::Convolution(cpu, wrong);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({ResidualSum{}, ResidualSum{}}).find("this one has 2 and 0"),
            std::string::npos);
  EXPECT_NE(refused({kPlainReLU, ElementFunction{Kind::kTanH}}).find("0 and 2"), std::string::npos);
  EXPECT_NE(refused({ElementFunction{Kind::kAbsVal}}).find("absval is not an activation"),
            std::string::npos);
  EXPECT_NE(refused({ElementFunction{Kind::kClip, 2, 1}}).find("clip 2 1"), std::string::npos);
  EXPECT_NE(refused({ResidualSum{std::nanf("")}}).find("coefficient"), std::string::npos);
  const Array x(cpu, kFloat, Values(32, 1)), y(cpu, kFloat, Values(12, 1));
  for (const Epilogue::Stage& stage :
       {Epilogue::Stage(ResidualSum{}), Epilogue::Stage(ElementFunction{Kind::kPReLU})}) {
    d.epilogue.stages = {stage};
    const auto op = Multiplexer::Convolution(cpu, d);
    test::Memory memory(cpu, op.get());
    EXPECT_THROW(op->Forward(memory(ConvArguments{x, x, {}, {}, y})), Error) << d.epilogue.name();
  }
}

}  // namespace
}  // namespace caffe
