// LayerBase::Facts of every type of layer, compared with what its Forward does.
#include "caffe/layer/layer_facts.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "caffe/memory/access_log.hpp"
#include "support/devices.hpp"
#include "support/keeping_device.hpp"
#include "support/layer_samples.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

// A layer of a sample, in TEST unless the sample says another phase, with values in its parameters
// that differ from each other and from 0.
class Probe {
 public:
  Probe(const std::string& type, const LayerSample& sample, Device* device, DataType data_type)
      : sample_(sample),
        tester_("type: '" + type + "' " +
                    (sample.parameters.find("phase") == std::string::npos ? "phase: TEST " : "") +
                    sample.parameters,
                device, TypeTriple::Equal(data_type), sample.bottoms, sample.tops) {
    if (auto* memory = dynamic_cast<MemoryData*>(&tester_.layer())) {
      memory->Reset(numbers_.data(), numbers_.data(), 2);
    }
    uint64_t seed = 11;
    for (const auto& blob : tester_.layer().blobs()) {
      Numbers values = TestNumbers(blob->count(), ++seed);
      for (double& value : values) value = std::abs(value) + 0.25;  // variances are positive
      blob->SetData(values);
    }
    for (const auto& [index, values] : sample.given) tester_.SetBottom(index, values);
  }

  LayerBase& layer() { return tester_.layer(); }
  LayerTester& tester() { return tester_; }
  bool given(int bottom) const { return sample_.given.count(bottom) > 0; }
  LayerFacts facts() { return layer().Facts(); }
  int bottoms() const { return static_cast<int>(sample_.bottoms.size()); }
  int tops() const { return sample_.tops; }
  BlobVec bottom() {
    BlobVec blobs;
    for (int b = 0; b < bottoms(); ++b) blobs.push_back(&tester_.bottom(b));
    return blobs;
  }
  BlobVec top() {
    BlobVec blobs;
    for (int t = 0; t < tops(); ++t) blobs.push_back(&tester_.top(t));
    return blobs;
  }
  Numbers Run() {
    tester_.Forward();
    return tester_.Top();
  }

 private:
  const LayerSample& sample_;
  const std::vector<float> numbers_{1, 2, 3, 4, 5, 6, 7, 8};
  LayerTester tester_;
};

// The type in which a layer is computed here.
DataType ExactType(const LayerTraits& traits) {
  const auto& types = traits.types;
  return std::find(types.begin(), types.end(), kDouble) == types.end() ? types[0] : kDouble;
}

// Calls `check` for every sample of every type that Python does not add, on the CPU. Gives the
// number of calls that returned true.
template <class Check> int ForEachSample(const Check& check) {
  int count = 0;
  for (const auto& [type, samples] : LayerSamples()) {
    for (const LayerSample& sample : samples) {
      SCOPED_TRACE(type + " { " + sample.parameters + " }");
      const LayerTraits& traits = LayerRegistry::Get().Traits(type);
      Probe probe(type, sample, Runtime::Get().cpu(), ExactType(traits));
      count += check(probe) ? 1 : 0;
    }
  }
  return count;
}

// The index along `axis` of each element of a blob.
std::vector<int64_t> IndicesAlong(const BlobBase& blob, int axis) {
  std::vector<int64_t> indices(blob.count());
  const int64_t inner = blob.count(axis + 1);
  for (int64_t i = 0; i < blob.count(); ++i) indices[i] = i / inner % blob.shape(axis);
  return indices;
}

TEST(LayerFactsTest, EveryTypeHasASample) {
  for (const std::string& type : LayerRegistry::Get().Names()) {
    EXPECT_NE(LayerSamples().count(type) > 0, NeedsNet(type))
        << type << ": add it to tests/support/layer_samples.cpp";
  }
}

TEST(LayerTraitsTest, LayersWithPerItemComputeEachItemByItself) {
  const int count = ForEachSample([](Probe& probe) {
    const auto& per_item = LayerRegistry::Get().Traits(probe.layer().type()).per_item;
    if (!per_item || !per_item(probe.layer().layer_param())) return false;
    EXPECT_TRUE(probe.layer().blobs().empty()) << "layers with weights have a grouped form";
    const int64_t items = probe.bottom()[0]->shape(0);
    const std::vector<uint64_t> state = probe.layer().RunState();  // equal random numbers
    std::vector<Numbers> before;
    probe.tester().Forward();
    for (BlobBase* top : probe.top()) before.push_back(top->DataAsDouble());
    // Other values in the last item.
    for (int b = 0; b < probe.bottoms(); ++b) {
      Numbers values = probe.tester().Bottom(b);
      if (probe.bottom()[b]->shape(0) != items || probe.given(b)) continue;
      for (size_t i = values.size() - values.size() / items; i < values.size(); ++i) {
        values[i] = -values[i] / 2;
      }
      probe.tester().SetBottom(b, values);
    }
    probe.layer().SetRunState(probe.layer().context().seed, state);
    probe.tester().Forward();
    for (int t = 0; t < probe.tops(); ++t) {
      EXPECT_EQ(probe.top()[t]->shape(0), items);
      Numbers after = probe.top()[t]->DataAsDouble();
      const size_t others = after.size() - after.size() / items;
      before[t].resize(others);
      after.resize(others);
      EXPECT_EQ(after, before[t]) << "top " << t;
    }
    return items > 1;
  });
  EXPECT_GT(count, 30);
}

TEST(LayerFactsTest, AliasesAreTheTopsThatShareMemory) {
  const int aliases = ForEachSample([](Probe& probe) {
    const LayerFacts facts = probe.facts();
    probe.tester().Forward();
    std::set<std::array<int, 3>> declared, actual;
    for (const Alias& alias : facts.aliases) {
      declared.insert({alias.top, alias.bottom, alias.parameter});
    }
    for (int t = 0; t < probe.tops(); ++t) {
      const DevicePtr data = probe.top()[t]->device_data();
      for (int b = 0; b < probe.bottoms(); ++b) {
        if (data == probe.bottom()[b]->device_data()) actual.insert({t, b, -1});
      }
      for (size_t p = 0; p < probe.layer().blobs().size(); ++p) {
        if (data == probe.layer().blobs()[p]->device_data()) {
          actual.insert({t, -1, static_cast<int>(p)});
        }
      }
    }
    EXPECT_EQ(declared, actual);
    // The facts that the traits give to the passes, before there is a layer.
    LayerParameter parameter = probe.layer().layer_param();
    for (int b = 0; b < probe.bottoms(); ++b) parameter.add_bottom("x");
    while (parameter.top_size() < probe.tops()) parameter.add_top("y");
    EXPECT_EQ(SharesBottomMemory(parameter), actual.count({0, 0, -1}) > 0);
    const TopMemory memory = TraitsOf(parameter.type()).top_memory;
    EXPECT_EQ(memory == TopMemory::kParameter, actual.count({0, -1, 0}) > 0);
    return !actual.empty();
  });
  EXPECT_GE(aliases, 6);
}

TEST(LayerFactsTest, AFunctionOfElementsIsItsFormula) {
  using Kind = ElementFunction::Kind;
  std::set<Kind> kinds{Kind::kAffine, Kind::kSum};  // have facts of their own
  ForEachSample([&kinds](Probe& probe) {
    const LayerFacts facts = probe.facts();
    if (!facts.function) {
      EXPECT_FALSE(facts.slopes);
      return false;
    }
    EXPECT_FALSE(facts.affine || facts.sum);
    ElementFunction function = *facts.function;
    EXPECT_EQ(facts.slopes != nullptr, function.kind == Kind::kPReLU);
    if (function.activation()) {
      Numbers x = TestNumbers(probe.bottom()[0]->count(), 3);
      for (double& value : x) value *= 8;  // on both sides of what clips
      probe.tester().SetBottom(0, x);
    }
    const Numbers slopes = facts.slopes ? facts.slopes->DataAsDouble() : Numbers();
    const std::vector<int64_t> channels = IndicesAlong(*probe.bottom()[0], 1);
    Numbers expected;
    for (const double x : probe.bottom()[0]->DataAsDouble()) {
      if (facts.slopes) function.a = slopes[slopes.size() == 1 ? 0 : channels[expected.size()]];
      expected.push_back(function.value(x));
    }
    ExpectNear(probe.Run(), expected, 1e-7, "y");  // parameters are float
    kinds.insert(function.kind);
    return true;
  });
  EXPECT_EQ(kinds.size(), ElementFunction::Kinds().size() + 1) << "each function has a layer";
}

TEST(LayerFactsTest, AnAffineLayerIsItsScalesAndShifts) {
  const int layers = ForEachSample([](Probe& probe) {
    const LayerFacts facts = probe.facts();
    if (!facts.affine) return false;
    const Affine& affine = *facts.affine;
    const BlobBase& bottom = *probe.bottom()[0];
    Numbers scale, shift;
    affine.evaluate(&scale, &shift);
    EXPECT_EQ(static_cast<int64_t>(scale.size()), affine.channels);
    EXPECT_EQ(static_cast<int64_t>(shift.size()), affine.channels);
    EXPECT_TRUE(affine.channels == 1 || affine.channels == bottom.shape(affine.axis));
    const Numbers x = bottom.DataAsDouble();
    const std::vector<int64_t> channels = IndicesAlong(bottom, affine.axis);
    Numbers expected;
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t c = affine.channels == 1 ? 0 : channels[i];
      expected.push_back(scale[c] * x[i] + shift[c]);
    }
    ExpectNear(probe.Run(), expected, 1e-7, "y");
    // Later values of exactly these blobs count.
    std::set<const BlobBase*> matter;
    for (const auto& blob : probe.layer().blobs()) {
      const Numbers before = blob->DataAsDouble();
      Numbers after = before;
      for (double& value : after) value = 2 * value + 1;
      blob->SetData(after);
      Numbers other_scale, other_shift;
      affine.evaluate(&other_scale, &other_shift);
      if (other_scale != scale || other_shift != shift) matter.insert(blob.get());
      blob->SetData(before);
    }
    EXPECT_EQ(std::set<const BlobBase*>(affine.sources.begin(), affine.sources.end()), matter);
    return true;
  });
  EXPECT_GE(layers, 10);
}

// The factor on sums of statistics is 1 over blob 2, or 0.
TEST(LayerFactsTest, BatchNormDividesItsStatisticsByTheirWeight) {
  LayerTester tester("type: 'BatchNorm' phase: TEST batch_norm_param { eps: 0.5 }",
                     Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{2, 2, 3}});
  auto& blobs = tester.layer().blobs();
  blobs[0]->SetData({6, -3});
  blobs[1]->SetData({12, 1.5});
  Numbers scale, shift;
  for (const double weight : {3.0, 0.0}) {
    blobs[2]->SetData({weight});
    tester.layer().Facts().affine->evaluate(&scale, &shift);
    const double factor = weight == 0 ? 0 : 1 / weight;
    for (int c = 0; c < 2; ++c) {
      const double mean = factor * (c ? -3 : 6), variance = factor * (c ? 1.5 : 12);
      EXPECT_DOUBLE_EQ(scale[c], 1 / std::sqrt(variance + 0.5));
      EXPECT_DOUBLE_EQ(shift[c], -mean / std::sqrt(variance + 0.5));
    }
  }
}

// Statistics of the batch depend on all elements.
TEST(LayerFactsTest, StatisticsOfTheBatchAreNotAffine) {
  for (const char* text :
       {"type: 'BatchNorm' phase: TRAIN", "type: 'BN' phase: TRAIN",
        "type: 'BatchNorm' phase: TEST batch_norm_param { use_global_stats: false }",
        "type: 'BatchNorm' phase: TEST batch_norm_param { fused_relu: true }"}) {
    LayerTester tester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2, 2, 3}});
    EXPECT_FALSE(tester.layer().Facts().affine) << text;
  }
}

TEST(LayerFactsTest, ASumIsThatOfItsBottomsTimesCoefficients) {
  const int layers = ForEachSample([](Probe& probe) {
    const LayerFacts facts = probe.facts();
    if (!facts.sum) return false;
    const Numbers& coefficients = facts.sum->coefficients;
    EXPECT_EQ(coefficients.size(), static_cast<size_t>(probe.bottoms()));
    Numbers expected(probe.bottom()[0]->count(), 0);
    for (int b = 0; b < probe.bottoms(); ++b) {
      const Numbers x = probe.tester().Bottom(b);
      for (size_t i = 0; i < x.size(); ++i) expected[i] += coefficients[b] * x[i];
    }
    ExpectNear(probe.Run(), expected, 1e-12, "y");
    return true;
  });
  EXPECT_GE(layers, 2);
}

TEST(LayerFactsTest, ScaledWeightsScaleTheirOutputChannel) {
  const int layers = ForEachSample([](Probe& probe) {
    const LayerFacts facts = probe.facts();
    if (!facts.weighted) return false;
    const LayerFacts::Weighted& weighted = *facts.weighted;
    const auto& blobs = probe.layer().blobs();
    EXPECT_EQ(blobs.size(), weighted.has_bias ? 2u : 1u);
    Numbers y = probe.Run();
    const std::vector<int64_t> channels = IndicesAlong(*probe.top()[0], weighted.axis);
    EXPECT_EQ(probe.top()[0]->shape(weighted.axis), weighted.channels);
    const auto factor = [](int64_t channel) { return 2.0 + static_cast<double>(channel); };
    for (size_t i = 0; i < y.size(); ++i) y[i] *= factor(channels[i]);
    Numbers weights = blobs[0]->DataAsDouble();
    const auto count = static_cast<int64_t>(weights.size());
    const int64_t of_group = weighted.channels / weighted.group;
    const int64_t inner = count / (weighted.outer * weighted.channels);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t group = i / (count / weighted.group);
      weights[i] *= factor(group * of_group + i / inner % of_group);
    }
    blobs[0]->SetData(weights);
    if (weighted.has_bias) {
      Numbers bias = blobs[1]->DataAsDouble();
      for (size_t c = 0; c < bias.size(); ++c) bias[c] *= factor(static_cast<int64_t>(c));
      blobs[1]->SetData(bias);
    }
    ExpectNear(probe.Run(), y, 1e-10, "y");
    return true;
  });
  EXPECT_GE(layers, 8);
}

// --- Ranges ------------------------------------------------------------------------------------

template <class Code> Numbers CodesOf(const BlobBase& blob) {
  const auto* codes = static_cast<const Code*>(blob.host_data());
  return {codes, codes + blob.count()};
}
Numbers Codes(const BlobBase& blob) {
  return blob.type() == kQuant8 ? CodesOf<uint8_t>(blob) : CodesOf<uint16_t>(blob);
}

void SetCodes(BlobBase* blob, uint64_t seed) {
  const Numbers numbers = TestNumbers(blob->count(), seed);
  void* const codes = blob->mutable_host_data();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto code = static_cast<int>(100 + 60 * numbers[i]);
    if (blob->type() == kQuant8) {
      static_cast<uint8_t*>(codes)[i] = static_cast<uint8_t>(code);
    } else {
      static_cast<uint16_t*>(codes)[i] = static_cast<uint16_t>(code);
    }
  }
}

// The codes of all tops after a forward with these ranges.
Numbers RunCodes(Probe& probe, const QuantRange& in, const QuantRange& out) {
  NodeRanges ranges;
  uint64_t seed = 5;
  for (BlobBase* blob : probe.bottom()) {
    if (blob->type().is_quantized()) SetCodes(blob, ++seed);
    ranges.bottom.push_back({in, blob->name()});
  }
  for (BlobBase* blob : probe.top()) ranges.top.push_back({out, blob->name()});
  LayerBase& layer = probe.layer();
  layer.Reshape(probe.bottom(), probe.top());
  layer.SetRanges(ranges);
  layer.PrepareParameters();
  layer.Forward(probe.bottom(), probe.top());
  Numbers codes;
  for (BlobBase* blob : probe.top()) {
    if (!blob->type().is_quantized()) continue;
    EXPECT_FALSE(blob->range().observed) << "the net alone writes ranges of blobs";
    const Numbers more = Codes(*blob);
    codes.insert(codes.end(), more.begin(), more.end());
  }
  return codes;
}

bool Contains(const Numbers& all, const Numbers& some) {
  const std::set<double> set(all.begin(), all.end());
  return std::all_of(some.begin(), some.end(), [&set](double x) { return set.count(x) > 0; });
}

// Whether a layer of the sample has quantized types.
bool Quantizes(const std::string& type, const LayerSample& sample) {
  const auto& quantizes = LayerRegistry::Get().Traits(type).quantizes;
  if (!quantizes) return true;
  LayerParameter parameter;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(sample.parameters, &parameter));
  for (size_t b = 0; b < sample.bottoms.size(); ++b) parameter.add_bottom("x");
  if (!parameter.has_phase()) parameter.set_phase(TEST);
  return quantizes(parameter);
}

class RangeFactsTest : public testing::TestWithParam<DeviceType> {};

TEST_P(RangeFactsTest, CodesFollowTheRule) {
  std::map<LayerFacts::Range, int> count;
  for (const auto& [type, samples] : LayerSamples()) {
    const LayerTraits& traits = LayerRegistry::Get().Traits(type);
    const auto& types = traits.types;
    if (std::find(types.begin(), types.end(), GetParam().type) == types.end()) continue;
    for (const LayerSample& sample : samples) {
      if (sample.bottoms.empty() || sample.tops == 0) continue;
      // These layers compute some things, in TRAIN or by chance, in float kinds only.
      if (sample.parameters.find("STOCHASTIC") != std::string::npos ||
          sample.parameters.find("negative_slope: -") != std::string::npos) {
        continue;
      }
      SCOPED_TRACE(type + " { " + sample.parameters + " }");
      if (!Quantizes(type, sample)) continue;
      Probe probe(type, sample, GetParam().device, GetParam().type);
      const BlobVec tops = probe.top();
      const bool codes_out = std::any_of(tops.begin(), tops.end(), [](const BlobBase* blob) {
        return blob->type().is_quantized();
      });
      if (!codes_out) continue;
      const LayerFacts::Range rule = probe.facts().range;
      ++count[rule];
      const QuantRange range{0.25, 90, true}, other{0.375, 70, true};
      const Numbers codes = RunCodes(probe, range, range);
      Numbers given;
      for (BlobBase* blob : probe.bottom()) {
        const Numbers more = Codes(*blob);
        given.insert(given.end(), more.begin(), more.end());
      }
      if (rule == LayerFacts::Range::kOwn) {
        EXPECT_NE(RunCodes(probe, range, other), codes) << "the range of the top does not count";
        continue;
      }
      if (type == "Interp") {  // means of codes, rounded away from the zero point
        const auto [least, most] = std::minmax_element(given.begin(), given.end());
        const auto [first, last] = std::minmax_element(codes.begin(), codes.end());
        EXPECT_TRUE(*least <= *first && *last <= *most) << "codes beyond those of the bottom";
        continue;
      }
      EXPECT_TRUE(Contains(given, codes)) << "codes that no bottom has";
      EXPECT_EQ(RunCodes(probe, other, other), codes) << "the range counts";
      if (rule == LayerFacts::Range::kCarried) continue;
      // With a range of its own the top has the same numbers.
      const Numbers rescaled = RunCodes(probe, range, other);
      for (size_t i = 0; i < codes.size(); ++i) {
        const double before = range.scale * (codes[i] - range.zero);
        const double after = other.scale * (rescaled[i] - other.zero);
        ASSERT_LE(std::abs(before - after), 0.5 * other.scale + 1e-6) << "element " << i;
      }
    }
  }
  EXPECT_EQ(count.size(), 4u) << "each rule has a layer";
}

INSTANTIATE_TEST_SUITE_P(All, RangeFactsTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

// --- Replays -----------------------------------------------------------------------------------

// These are the types in phase TRAIN. All others run normally between the graphs of a pass.
TEST(ReplayFactsTest, TheseLayersAreNotReplayedInTraining) {
  std::set<std::string> others;
  for (const auto& [type, samples] : LayerSamples()) {
    const LayerTraits& traits = LayerRegistry::Get().Traits(type);
    for (const LayerSample& sample : samples) {
      if (sample.parameters.find("phase: TEST") != std::string::npos) continue;
      SCOPED_TRACE(type + " { " + sample.parameters + " }");
      LayerSample train = sample;
      if (train.parameters.find("phase") == std::string::npos) train.parameters += " phase: TRAIN";
      Probe probe(type, train, Runtime::Get().cpu(), ExactType(traits));
      const LayerFacts facts = probe.facts();
      EXPECT_FALSE(facts.replayable && facts.host);
      EXPECT_FALSE(facts.replayable && facts.shapes_from_data);
      if (!facts.replayable) others.insert(type);
    }
  }
  EXPECT_EQ(others,
            (std::set<std::string>{"ArgMax", "Data", "DetectionOutput", "DummyData",
                                   "GroupedConvolution", "GroupedInnerProduct", "HDF5Data",
                                   "HDF5Output", "ImageData", "Input", "MemoryData", "Parameter",
                                   "Proposal", "YoloDetectionOutput", "Yolov3DetectionOutput"}));
}

// A layer in phase TRAIN, on a device that keeps the calls of one forward and backward.
struct Replayed {
  Replayed(const std::string& type, const LayerSample& sample, Device* device)
      : tester("type: '" + type + "' phase: TRAIN " + sample.parameters, device,
               TypeTriple::Equal(kFloat), sample.bottoms, sample.tops),
        traits(LayerRegistry::Get().Traits(type)) {
    LayerBase& layer = tester.layer();
    for (size_t b = 0; b < sample.bottoms.size(); ++b) {
      bottom.push_back(&tester.bottom(static_cast<int>(b)));
      const auto& labels = traits.no_gradient_bottoms;
      const int index = static_cast<int>(b);
      gradients.push_back(traits.backward &&
                          std::find(labels.begin(), labels.end(), index) == labels.end());
    }
    for (int t = 0; t < sample.tops; ++t) top.push_back(&tester.top(t));
    for (size_t p = 0; p < layer.blobs().size(); ++p) {
      layer.set_param_propagate_down(static_cast<int>(p), true);
    }
    for (const auto& [index, values] : sample.given) tester.SetBottom(index, values);
    given = sample.given;
  }
  void Fill(uint64_t seed) {
    for (size_t b = 0; b < bottom.size(); ++b) {
      if (given.count(static_cast<int>(b)) > 0) continue;
      if (!gradients[b] && traits.backward) continue;  // labels
      bottom[b]->SetData(TestNumbers(bottom[b]->count(), seed + b));
    }
    for (size_t t = 0; t < top.size(); ++t) {
      top[t]->SetDiff(TestNumbers(top[t]->count(), seed + 50 + t));
    }
    for (const auto& blob : tester.layer().blobs()) {
      blob->SetData(TestNumbers(blob->count(), ++seed + 100));
    }
  }
  void Upload() {
    for (BlobBase* blob : bottom) blob->device_data();
    for (BlobBase* blob : top) blob->device_diff();
    for (const auto& blob : tester.layer().blobs()) {
      blob->device_data();
      blob->device_diff();
    }
  }
  void Run() {
    LayerBase& layer = tester.layer();
    layer.PrepareParameters();
    layer.Forward(bottom, top);
    if (traits.backward) layer.Backward(top, gradients, bottom);
  }
  std::vector<Numbers> Results(const std::vector<SyncedMemory*>& written = {}) {
    for (SyncedMemory* memory : written) memory->MarkDeviceWritten();
    std::vector<Numbers> all;
    for (BlobBase* blob : top) all.push_back(blob->DataAsDouble());
    for (size_t b = 0; b < bottom.size(); ++b) {
      if (gradients[b]) all.push_back(bottom[b]->DiffAsDouble());
    }
    for (const auto& blob : tester.layer().blobs()) {
      all.push_back(blob->DataAsDouble());
      all.push_back(blob->DiffAsDouble());
    }
    return all;
  }
  LayerTester tester;
  const LayerTraits& traits;
  BlobVec bottom, top;
  std::vector<bool> gradients;
  std::map<int, Numbers> given;
};

TEST(ReplayFactsTest, AReplayComputesWhatTheLayerComputes) {
  int replays = 0;
  for (Device* device : TestDevices()) {
    // OpenCL's matrix products on GPUs are calls of a library.
    if (!CompilesSlowly(*device)) continue;
    for (const auto& [type, samples] : LayerSamples()) {
      for (const LayerSample& sample : samples) {
        if (sample.parameters.find("phase") != std::string::npos) continue;
        SCOPED_TRACE(type + " { " + sample.parameters + " }");
        KeepingDevice keeping(device);
        Replayed one(type, sample, &keeping);
        if (!one.tester.layer().Facts().replayable) continue;
        Replayed two(type, sample, &keeping);
        for (uint64_t seed : {1, 200, 400}) {
          for (Replayed* layer : {&one, &two}) layer->Fill(seed);
          two.Run();
          if (seed == 1) {
            one.Run();
            EXPECT_EQ(one.Results(), two.Results());
            continue;
          }
          one.Upload();
          std::vector<SyncedMemory*> written;
          std::unique_ptr<Graph> graph;
          {
            // Recorded with the bottoms and parameters of this pass, replayed with the next ones.
            AccessLog log;
            Capture capture(&keeping, GraphMode::kBranches);
            one.Run();
            graph = capture.End();
            written = log.TakeWritten();
          }
          graph->Launch();
          EXPECT_EQ(one.Results(written), two.Results());
          for (Replayed* layer : {&one, &two}) layer->Fill(seed + 1);
          two.Run();
          one.Upload();
          graph->Launch();
          EXPECT_EQ(one.Results(written), two.Results());
          ++replays;
        }
      }
    }
  }
  if (replays == 0) GTEST_SKIP() << "no device of which a record can be kept";
  EXPECT_GT(replays, 80);
}

// --- The host ----------------------------------------------------------------------------------

// The events on a device between two moments that need the host.
int64_t HostEffects(const DeviceCounters& a, const DeviceCounters& b) {
  return b.uploads - a.uploads + b.downloads - a.downloads + b.syncs - a.syncs;
}

TEST(HostFactsTest, OnlyLayersWithHostEffectsNeedTheHost) {
  int devices = 0, host_layers = 0;
  for (Device* device : TestDevices()) {
    if (device->host_accessible()) continue;
    ++devices;
    for (const auto& [type, samples] : LayerSamples()) {
      for (const LayerSample& sample : samples) {
        SCOPED_TRACE(device->info().id + ": " + type + " { " + sample.parameters + " }");
        Probe probe(type, sample, device, kFloat);
        const bool host = probe.facts().host;
        BlobVec bottom = probe.bottom(), top = probe.top();
        LayerBase& layer = probe.layer();
        const auto touch = [&] {
          // The bottoms are newer on the device, so that the host has to download them.
          for (BlobBase* blob : bottom) blob->mutable_device_data();
          for (BlobBase* blob : top) blob->device_data();
        };
        layer.Reshape(bottom, top);
        layer.PrepareParameters();
        touch();
        if (!host) {
          layer.Forward(bottom, top);  // what a first forward makes ready
          touch();
        }
        const DeviceCounters before = device->counters();
        layer.Forward(bottom, top);
        touch();  // a top that was written on the host is uploaded
        EXPECT_EQ(HostEffects(before, device->counters()) > 0, host);
        host_layers += host ? 1 : 0;
      }
    }
  }
  if (devices == 0) GTEST_SKIP() << "every device has the memory of the host";
  EXPECT_GE(host_layers, 6 * devices);
}

// Such a layer shapes its tops in Forward, whatever shape they have.
TEST(HostFactsTest, ShapesFromDataAreMadeInForward) {
  const int layers = ForEachSample([](Probe& probe) {
    if (!probe.facts().shapes_from_data) return false;
    EXPECT_TRUE(probe.facts().host);
    BlobBase& top = *probe.top()[0];
    probe.layer().Forward(probe.bottom(), probe.top());
    const Shape shape = top.shape();
    top.Reshape({1});
    probe.layer().Forward(probe.bottom(), probe.top());
    EXPECT_EQ(top.shape(), shape);
    return true;
  });
  // Data, ImageData, DetectionOutput, Proposal and the two layers of YOLO.
  EXPECT_EQ(layers, 6);
}

}  // namespace
}  // namespace caffe
