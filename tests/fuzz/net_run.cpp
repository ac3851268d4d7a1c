// A net of any parameters: it is made in both phases, and runs forward and backward on the CPU.
// Errors are errors of the user; memory, time and arithmetic must stay within what the net needs.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "caffe.pb.h"
#include "caffe/device/available_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/step_info.hpp"
#include "fuzz/support/field_words.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"
#include "support/layer_samples.hpp"

namespace caffe::fuzz {
namespace {

// The memory that a net of this target may need, so that thousands of them run in a minute.
constexpr int64_t kMostBytes = 8 << 20, kMostOperations = 20'000'000;
constexpr int64_t kMostLayers = 64, kMostTime = 64;

// These read or write files of a name that the net gives.
const std::set<std::string>& FileTypes() {
  static const std::set<std::string> types{"Data", "ImageData", "HDF5Data", "HDF5Output", "Python"};
  return types;
}

// Refuses nets that use files, types that a compiler must make first, and nets that are too large
// for this target. Returns the number of layers with those of nested nets.
int64_t CheckNet(const NetParameter& net) {
  int64_t layers = net.layer_size();
  CAFFE_CHECK(net.data_type_name().empty(), "a type by its name");
  for (const LayerParameter& layer : net.layer()) {
    CAFFE_CHECK(!FileTypes().count(layer.type()) && layer.infogain_loss_param().source().empty() &&
                    layer.transform_param().mean_file().empty(),
                "files");
    CAFFE_CHECK(layer.bottom_data_type_name().empty() && layer.compute_data_type_name().empty() &&
                    layer.top_data_type_name().empty(),
                "a type by its name");
    const MOEParameter& mixture = layer.moe_param();
    layers += CheckNet(mixture.gating_net());
    for (int i = 0; i < mixture.expert_net_size(); ++i) {
      const int64_t instances =
          i < mixture.expert_instances_size() ? mixture.expert_instances(i) : 1;
      // The library must refuse itself what is above its own limit.
      const bool refused = instances > 1 << 14;
      layers +=
          (1 + CheckNet(mixture.expert_net(i))) * (refused ? 1 : std::max<int64_t>(instances, 1));
      CAFFE_CHECK(layers <= kMostLayers, "many layers");
    }
  }
  CAFFE_CHECK(layers <= kMostLayers, "many layers");
  return layers;
}

// A recurrent layer becomes several layers for each time step, and a gate compares all experts.
void CheckTime(const NetParameter& net) {
  static const std::set<std::string> slow = [] {
    std::set<std::string> types{"MOERoute"};
    for (const std::string& type : LayerRegistry::Get().Names()) {
      if (NeedsNet(type)) types.insert(type);
    }
    return types;
  }();
  const auto grows = [](const LayerParameter& layer) { return slow.count(layer.type()) > 0; };
  if (std::ranges::none_of(net.layer(), grows)) return;
  const auto check = [](const BlobShape& shape) {
    CAFFE_CHECK(
        std::ranges::all_of(shape.dim(), [](int64_t extent) { return extent <= kMostTime; }),
        "a long sequence");
  };
  for (const LayerParameter& layer : net.layer()) {
    for (const BlobShape& shape : layer.input_param().shape()) check(shape);
    for (const BlobShape& shape : layer.dummy_data_param().shape()) check(shape);
    check(layer.parameter_param().shape());
  }
}

// Integers that are class labels, regions and routes of small nets, in a blob whose name says so.
void FillInput(BlobBase* blob, int salt) {
  const bool whole = blob->name().find("label") != std::string::npos;
  std::vector<double> values(blob->count());
  for (size_t i = 0; i < values.size(); ++i) {
    const double digit = static_cast<double>((i * 7 + static_cast<size_t>(salt)) % 13);
    values[i] = whole ? static_cast<double>(i % 2) : digit / 4 - 1.5;
  }
  blob->SetData(values);
}

void CheckNeeds(Net* net) {
  CAFFE_CHECK(net->memory_needs().total() <= kMostBytes, "a large net");
  int64_t operations = 0;
  for (const StepInfo& step : net->Steps()) {
    operations += std::min(step.operations.value_or(0), kMostOperations + 1);
    CAFFE_CHECK(operations <= kMostOperations, "a slow net");
  }
}

// Many nets do not fit another number of items, or have no gradient in phase TEST.
void TryAnotherBatch(Net* net) try {
  for (BlobBase* input : net->input_blobs()) {
    Shape shape = input->shape();
    if (shape.empty() || shape[0] == 0) continue;
    shape[0] = shape[0] == 1 ? 2 : shape[0] - 1;
    input->Reshape(shape);
  }
  net->Reshape();
  CheckNeeds(net);
  for (BlobBase* input : net->input_blobs()) FillInput(input, 2);
  net->Forward();
  for (const auto& blob : net->blobs()) blob->DataAsDouble();
  net->Backward();
} catch (const Error&) {
}

// Numbers that are invalid as a class, a region or a route, or that an integer cannot hold, in
// inputs and parameters.
void TryExtremes(Net* net) try {
  static constexpr double kExtremes[] = {1,     0,        NAN,       2147483648.0, -1,
                                         1e30,  0.49999,  -INFINITY, 1e-40,        16777217,
                                         -1e30, INFINITY, -0.5};
  const auto fill = [](BlobBase* blob) {
    std::vector<double> values(blob->count());
    for (size_t i = 0; i < values.size(); ++i) values[i] = kExtremes[i % std::size(kExtremes)];
    blob->SetData(values);
  };
  for (BlobBase* input : net->input_blobs()) fill(input);
  net->Forward();
  net->Backward();
  for (BlobBase* blob : net->learnable_params()) fill(blob);
  net->Forward();
  net->Backward();
  net->CheckData();
} catch (const Error&) {
}

void RunNet(const NetParameter& parameter, Phase phase) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = phase;
  options.seed = 1;
  Net net(parameter, options);
  net.UsePlaceholderRanges();
  for (const auto& layer : net.layers()) {
    for (const auto& blob : layer->blobs()) {
      CAFFE_CHECK(blob->bytes() <= kMostBytes, "a large net");
    }
  }
  CAFFE_CHECK(net.blob_bytes() <= kMostBytes, "a large net");
  CheckNeeds(&net);
  const auto fill = [&](int salt) {
    for (BlobBase* input : net.input_blobs()) FillInput(input, salt);
  };
  fill(0);
  net.Forward();
  net.Loss();
  if (phase == TRAIN) {
    net.Backward();
    // The passes of a solver.
    net.set_frees_memory(true);
    fill(1);
    net.ForwardBackward();
    net.set_frees_memory(false);
  }
  net.CheckData();
  NetParameter written;
  net.ToProto(&written);
  TryAnotherBatch(&net);
  TryExtremes(&net);
}

// While it exists, the library finds 64 MiB of available memory, and refuses nets that need more.
class LittleMemory {
 public:
  LittleMemory() {
    static const std::string root = [] {
      std::filesystem::create_directory(Folder() + "/proc");
      WriteInput("proc/meminfo", "MemTotal: 65536 kB\nMemAvailable: 65536 kB\n");
      return Folder();
    }();
    SetHostMemoryRoot(root);
  }
  ~LittleMemory() { SetHostMemoryRoot("/"); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;
};

void RunBoth(std::string_view bytes) {
  const LittleMemory little;
  NetParameter net;
  CAFFE_CHECK(net.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
              "not a NetParameter");
  CheckNet(net);
  CheckTime(net);
  net.clear_debug_info();
  try {
    RunNet(net, TRAIN);
  } catch (const Error&) {
    RunNet(net, TEST);
    throw;
  }
  RunNet(net, TEST);
}

std::string BytesOf(const std::string& text) {
  NetParameter net;
  if (!google::protobuf::TextFormat::ParseFromString(text, &net)) Fault("invalid seed: " + text);
  return net.SerializeAsString();
}

// The sample's bottoms are inputs, or constant parameters where only some numbers will do.
std::string NetOf(const std::string& type, const LayerSample& sample, const std::string& head) {
  std::string text = head + "force_backward: true\n", bottoms;
  for (size_t b = 0; b < sample.bottoms.size(); ++b) {
    std::string shape = "shape {";
    for (const int64_t extent : sample.bottoms[b]) shape += Concat(" dim: ", extent);
    shape += " }";
    const std::string name = Concat("x", b);
    const auto given = sample.given.find(static_cast<int>(b));
    if (given == sample.given.end()) {
      text += Concat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { ",
                     shape, " } }\n");
    } else {
      text += Concat("layer { name: '", name, "' type: 'Parameter' top: '", name,
                     "' parameter_param { ", shape, " } blobs { ", shape);
      for (const double value : given->second) text += Concat(" data: ", value);
      text += " } }\n";
    }
    bottoms += Concat(" bottom: '", name, "'");
  }
  text += Concat("layer { name: 'layer' type: '", type, "'", bottoms, " ", sample.parameters);
  for (int t = 0; t < sample.tops; ++t) text += Concat(" top: 'y", t, "'");
  return text + " }\n";
}

const char* const kRecurrent = R"(
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 dim: 4 } } }
  layer { name: 'cont' type: 'Input' top: 'label' input_param { shape { dim: 3 dim: 2 } } }
  layer { name: 'cell' type: '%' bottom: 'x' bottom: 'label' top: 'y'
          recurrent_param { num_output: 3 weight_filler { type: 'uniform' min: -1 } } }
  layer { name: 'loss' type: 'Reduction' bottom: 'y' top: 'loss' loss_weight: 1 })";

const char* const kMixture = R"(
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 } } }
  layer {
    name: 'moe' type: 'MOE' bottom: 'x' top: 'y'
    moe_param {
      gating_net {
        layer { name: 'in' type: 'Input' top: 'x' }
        layer { name: 'gate' type: 'InnerProduct' bottom: 'x' top: 'gate'
                inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
        layer { name: 'softmax' type: 'Softmax' bottom: 'gate' top: 'p' }
      }
      expert_net {
        layer { name: 'in' type: 'Input' top: 'x' }
        layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'y'
                inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
        layer { name: 'relu' type: 'ReLU' bottom: 'y' top: 'y' }
      }
      expert_instances: 4 select_experts: 2 load_balance_loss_weight: 0.1 %
    }
  }
  layer { name: 'loss' type: 'Reduction' bottom: 'y' top: 'loss' loss_weight: 1 })";

const char* const kImages = R"(
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
  layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 2 } } }
  layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c'
          convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
  layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }
  layer { name: 'scale' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }
  layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' }
  layer { name: 'pool' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: 'drop' type: 'Dropout' bottom: 'p' top: 'p' }
  layer { name: 'fc' type: 'InnerProduct' bottom: 'p' top: 's'
          inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'loss'
          include { phase: TRAIN } }
  layer { name: 'accuracy' type: 'Accuracy' bottom: 's' bottom: 'label' top: 'accuracy'
          include { phase: TEST } })";

std::string With(std::string text, const std::string& word) {
  text.replace(text.find('%'), 1, word);
  return text;
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  const auto add = [&](const std::string& name, const std::string& text) {
    seeds.push_back({name, BytesOf(text)});
  };
  for (const auto& [type, samples] : LayerSamples()) {
    // MemoryData needs arrays of the caller.
    if (FileTypes().count(type) || type == "MemoryData") continue;
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto& types = LayerRegistry::Get().Traits(type).types;
      const bool real = types.empty() || std::count(types.begin(), types.end(), kFloat) > 0;
      add(Concat(type, i), NetOf(type, samples[i], real ? "" : "data_type: CAFFE_DOUBLE\n"));
    }
  }
  for (const char* const type : {"LSTM", "GRU", "RNN"}) add(type, With(kRecurrent, type));
  add("MOE", With(kMixture, ""));
  add("MOE_all", With(kMixture, "full_forward: true"));
  add("images", kImages);
  add("images_half", std::string("data_type: CAFFE_HALF ") + kImages);
  add("images_bfloat16", std::string("data_type: CAFFE_BFLOAT16 ") + kImages);
  add("empty", "name: 'empty'");
  return seeds;
}

std::vector<std::string> Words() { return LayerRegistry::Get().Names(); }

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  return MutateBytes(NetParameter::default_instance(), bytes, most, seed);
}

const Registration registration(
    {.name = "net_run", .run = RunBoth, .seeds = Seeds, .words = Words, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
