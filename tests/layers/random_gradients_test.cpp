// Forward and backward passes of convolutions, pooling and normalisation of random shapes and
// settings, against the same layer in double on the CPU: its gradients agree with differences in
// the tests of each layer. Numbers are large in half kinds, so that half cannot hold their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/workspace.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : numbers_(seed) {}
  // In [least, most].
  int64_t In(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(numbers_() % static_cast<unsigned>(most - least + 1));
  }
  bool Coin() { return In(0, 1) == 1; }
  template <class T> T One(std::initializer_list<T> of) {
    return *(of.begin() + In(0, static_cast<int64_t>(of.size()) - 1));
  }

 private:
  std::minstd_rand numbers_;
};

struct Sample {
  std::string text;
  Shape shape;
};

// Kernels, strides, paddings and dilations of two axes that differ; no window is in the padding
// alone.
std::string WindowText(Random* random, Shape* shape, bool dilates) {
  std::string kernel, stride, pad, dilation;
  for (int axis = 2; axis < 4; ++axis) {
    const int64_t size = random->In(1, 3), dilated = dilates ? random->In(1, 2) : 1;
    const int64_t extent = (size - 1) * dilated + 1;
    kernel += Concat("kernel_size: ", size, " ");
    stride += Concat("stride: ", random->In(1, 2), " ");
    pad += Concat("pad: ", random->In(0, (extent - 1) / 2), " ");
    dilation += Concat("dilation: ", dilated, " ");
    (*shape)[axis] = extent + random->In(0, 9);
  }
  return kernel + stride + pad + (dilates ? dilation : "");
}

Sample ConvolutionSample(Random* random, const char* layer) {
  const int64_t group = random->One<int64_t>({1, 1, 2, 3, 8});
  Sample sample{"", {random->In(1, 3), group * random->In(1, 6), 0, 0}};
  const std::string window = WindowText(random, &sample.shape, true);
  sample.text =
      Concat("type: '", layer, "' convolution_param { num_output: ", group * random->In(1, 5),
             " group: ", group, " ", window, random->Coin() ? "" : "bias_term: false ", "}");
  return sample;
}

Sample PoolingSample(Random* random) {
  Sample sample{"", {random->In(1, 3), random->In(1, 19), 0, 0}};
  std::string window;
  for (const char* axis : {"h", "w"}) {
    const int64_t size = random->In(1, 4);
    sample.shape[*axis == 'h' ? 2 : 3] = size + random->In(0, 9);
    window += Concat("kernel_", axis, ": ", size, " stride_", axis, ": ", random->In(1, size),
                     " pad_", axis, ": ", random->In(0, size - 1), " ");
  }
  if (random->In(0, 5) == 0) window = "global_pooling: true ";
  sample.text = Concat("type: 'Pooling' pooling_param { pool: ", random->One({"MAX", "AVE"}), " ",
                       window, "round_mode: ", random->One({"CEIL", "FLOOR"}), " }");
  return sample;
}

Sample LrnSample(Random* random) {
  return {Concat("type: 'LRN' lrn_param { local_size: ", 2 * random->In(0, 3) + 1,
                 " alpha: ", random->One({0.0001, 0.5, 3.0}),
                 " beta: ", random->One({0.5, 0.75, 1.0}), " norm_region: ",
                 random->One({"ACROSS_CHANNELS", "ACROSS_CHANNELS", "WITHIN_CHANNEL"}), " }"),
          {random->In(1, 3), random->In(1, 40), random->In(1, 9), random->In(1, 9)}};
}

// Channels of two and more numbers, whose mean differs from each of them.
Sample BatchNormSample(Random* random) {
  return {"type: 'BatchNorm' batch_norm_param { use_global_stats: false eps: 0.0078125 }",
          {random->In(2, 9), random->In(1, 40), random->In(1, 9), random->In(2, 9)}};
}

Sample BnSample(Random* random) {
  return {"type: 'BN' bn_param { eps: 0.0078125 }",
          {random->In(2, 9), random->In(1, 40), random->In(1, 9), random->In(2, 9)}};
}

struct Kind {
  const char* name;
  std::function<Sample(Random*)> sample;
  double large;  // a factor of the numbers in half kinds
};

std::vector<Kind> Kinds() {
  return {
      {"Convolution", [](Random* r) { return ConvolutionSample(r, "Convolution"); }, 0x1p14},
      {"Deconvolution", [](Random* r) { return ConvolutionSample(r, "Deconvolution"); }, 0x1p14},
      {"Pooling", &PoolingSample, 0x1p15},
      {"LRN", &LrnSample, 0x1p10},
      {"BatchNorm", &BatchNormSample, 0x1p14},
      {"BN", &BnSample, 0x1p14},
  };
}

// The elements of an array of this shape, in the order of NHWC.
std::vector<double> ChannelsLast(const Shape& shape, const std::vector<double>& values) {
  const int64_t channels = shape[1], positions = ShapeCount(shape, 2);
  std::vector<double> last(values.size());
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t i = 0; i < channels * positions; ++i) {
      last[(n * positions + i % positions) * channels + i / positions] =
          values[n * channels * positions + i];
    }
  }
  return last;
}

struct Results {
  std::vector<double> top, bottom_diff;
  std::vector<std::vector<double>> parameter_diffs;
};

// Compares two runs.
void ExpectSame(const Results& one, const Results& two) {
  EXPECT_EQ(one.top, two.top) << "of two runs";
  EXPECT_EQ(one.bottom_diff, two.bottom_diff) << "of two runs";
  EXPECT_EQ(one.parameter_diffs, two.parameter_diffs) << "of two runs";
}

// Adds a test failure for the first element whose error is too large, relative to the largest
// element: sums of large numbers may be small.
void ExpectClose(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  std::vector<double> one = actual, two = expected;
  for (double& value : one) value /= largest;
  for (double& value : two) value /= largest;
  ExpectNear(one, two, tolerance, Concat(what, ", divided by ", largest));
}

Results ResultsOf(LayerTester* layer) {
  Results results{layer->Top(), layer->BottomDiff(0), {}};
  for (const auto& blob : layer->layer().blobs()) {
    results.parameter_diffs.push_back(blob->has_diff() ? blob->DiffAsDouble()
                                                       : std::vector<double>());
  }
  return results;
}

class RandomGradientsTest : public testing::TestWithParam<std::tuple<DeviceType, size_t>> {
 protected:
  DeviceType on() const { return std::get<0>(GetParam()); }
  Kind kind() const { return Kinds()[std::get<1>(GetParam())]; }

  std::unique_ptr<LayerTester> Make(const Sample& sample, Device* device, DataType type) {
    auto made = std::make_unique<LayerTester>(sample.text, device, TypeTriple::Equal(type),
                                              std::vector<Shape>{sample.shape});
    made->SetBottom(0, numbers_);
    if (kind().name[0] == 'C' || kind().name[0] == 'D') {
      // So small that no result is larger than the largest number.
      const auto& blobs = made->layer().blobs();
      const double scale = std::exp2(-std::ceil(std::log2(static_cast<double>(blobs[0]->count()))));
      for (size_t i = 0; i < blobs.size(); ++i) {
        std::vector<double> values = TestNumbers(blobs[i]->count(), 11 + i);
        for (double& value : values) value *= scale;
        blobs[i]->SetData(values);
      }
    }
    return made;
  }
  // Gradients of parameters are added to these.
  static void SetDiffs(LayerTester* layer) {
    for (const auto& blob : layer->layer().blobs()) {
      blob->SetDiff(std::vector<double>(blob->count(), 0.5));
    }
  }
  static Results Run(LayerTester* layer) {
    layer->Forward();
    layer->RandomTopDiff();
    SetDiffs(layer);
    layer->Backward();
    return ResultsOf(layer);
  }
  // The results of a work in kNHWC.
  static Results RunChannelsLast(LayerTester* layer, const Sample& sample,
                                 const std::vector<double>& x) {
    layer->SetBottom(0, ChannelsLast(sample.shape, x));
    WorkRequest request;
    request.layouts = {Layout::kNHWC, Layout::kNHWC};
    request.gradients = {true};
    const auto work = layer->layer().MakeWork(request, {&layer->bottom()}, {&layer->top()});
    work->Prepare();
    Workspace workspace(layer->layer().device());
    work->Run(workspace.Need(work->workspace_bytes()));
    layer->RandomTopDiff();
    layer->SetTopDiff(0, ChannelsLast(layer->top().shape(), layer->top().DiffAsDouble()));
    SetDiffs(layer);
    work->Backward(workspace.Need(work->workspace_bytes()));
    return ResultsOf(layer);
  }

  std::vector<double> numbers_;
};

TEST_P(RandomGradientsTest, AgreeWithDoubleAndRepeat) {
  const auto [device, type] = on();
  Random random(static_cast<unsigned>(7 + std::get<1>(GetParam())));
  const bool half = type == kHalf || type == kBfloat16;
  // Gradients of parameters are float. cuDNN writes them in the type of the layer.
  const double tolerance = 4 * Tolerance(type);
  const double sums = half && device->backend() == "cuda" ? Tolerance(type) : 4 * Tolerance(kFloat);
  for (int i = 0; i < (CompilesSlowly(*device) ? 8 : 30); ++i) {
    const Sample sample = kind().sample(&random);
    const double factor = half && random.Coin() ? kind().large : 1;
    SCOPED_TRACE(Concat(sample.text, " of ", ShapeString(sample.shape), ", numbers to ", factor));
    numbers_ = TestNumbers(ShapeCount(sample.shape), 100 + i);
    for (double& number : numbers_) number *= factor;
    const auto exact = Make(sample, Runtime::Get().cpu(), kDouble);
    const auto layer = Make(sample, device, type);
    Results expected = Run(exact.get());
    const Results found = Run(layer.get());
    const auto compare = [&](const Results& one, const std::string& what) {
      ExpectClose(one.top, expected.top, tolerance, "top" + what);
      ExpectClose(one.bottom_diff, expected.bottom_diff, tolerance, "bottom diff" + what);
      for (size_t p = 0; p < one.parameter_diffs.size(); ++p) {
        ExpectClose(one.parameter_diffs[p], expected.parameter_diffs[p],
                    type == kDouble ? tolerance : sums, Concat("diff of parameter ", p, what));
      }
    };
    compare(found, "");
    ExpectSame(Run(layer.get()), found);
    if (HasFailure()) return;

    // A work of BatchNorm in NHWC computes a Scale, too: it has a test of its own.
    const LayerFacts facts = layer->layer().Facts();
    if (!facts.layouts.trains || facts.normalized) continue;
    const Results last = RunChannelsLast(layer.get(), sample, numbers_);
    expected.top = ChannelsLast(exact->top().shape(), expected.top);
    expected.bottom_diff = ChannelsLast(sample.shape, expected.bottom_diff);
    compare(last, " in NHWC");
    ExpectSame(RunChannelsLast(layer.get(), sample, numbers_), last);
    if (HasFailure()) return;
  }
}

std::vector<size_t> Numbers() {
  std::vector<size_t> numbers(Kinds().size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(All, RandomGradientsTest,
                         testing::Combine(testing::ValuesIn(DevicesAndFloats()),
                                          testing::ValuesIn(Numbers())),
                         [](const auto& info) {
                           return std::string(Kinds()[std::get<1>(info.param)].name) + "_" +
                                  TestName(std::get<0>(info.param));
                         });

}  // namespace
}  // namespace caffe
