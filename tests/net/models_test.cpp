// Every model of models/, fused and layer by layer, whole and cut at every layer: all blobs agree.
#include <filesystem>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "net/channels_last_library.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

struct ModelOnDevice {
  std::string model;
  DeviceType on;
};
void PrintTo(const ModelOnDevice& value, std::ostream* out) {
  *out << value.model << " " << value.on.device->info().id << " " << value.on.type.name();
}

// The net for deployment of each folder of models/.
std::string DeployFile(const std::string& model) {
  const std::string folder = CAFFE_SOURCE_DIR "/models/" + model + "/";
  for (const std::string& file : {folder + "deploy.prototxt", folder + model + ".prototxt"}) {
    if (std::filesystem::exists(file)) return file;
  }
  CAFFE_THROW(folder, " holds no net for deployment");
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(CAFFE_SOURCE_DIR "/models")) {
    if (entry.is_directory() && entry.path().filename() != "__pycache__") {
      models.push_back(entry.path().filename().string());
    }
  }
  std::sort(models.begin(), models.end());
  return models;
}

// All models on the CPU; elsewhere PoCL takes too long for the large ones.
std::vector<ModelOnDevice> ModelsAndDevices() {
  std::vector<ModelOnDevice> all;
  for (const std::string& model : Models()) {
    for (const DeviceType& on : DevicesAndTypes({kFloat, kHalf})) {
      const bool slow = CompilesSlowly(*on.device);
      const bool small = model == "lenet" || model == "squeezenet";
      const bool wide = model == "vgg16" || model == "alexnet";  // 0.5 s and more a forward
      if ((slow && (!small || on.type == kHalf)) || (wide && on.type == kHalf)) continue;
      all.push_back({model, on});
    }
  }
  return all;
}

class ModelsTest : public testing::TestWithParam<ModelOnDevice> {
 protected:
  void SetUp() override {
    NetParameter parameter = ReadNetParameter(DeployFile(GetParam().model));
    parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
    parameter.set_data_type(static_cast<DataTypeProto>(GetParam().on.type.info().proto));
    NetOptions options;
    options.device = GetParam().on.device;
    options.phase = TEST;
    options.seed = 1701;
    net_ = std::make_unique<Net>(parameter, options);
    // Statistics of a fresh BatchNorm normalize nothing. Each channel gets other ones.
    for (const auto& layer : net_->layers()) {
      if (layer->type() != "BatchNorm") continue;
      const int64_t channels = layer->blobs()[0]->count();
      layer->blobs()[0]->SetData(TestNumbers(channels, 5));
      Numbers variance = TestNumbers(channels, 6);
      for (double& value : variance) value = 4 + 2 * value;
      layer->blobs()[1]->SetData(variance);
      layer->blobs()[2]->SetData({2});
    }
    net_->input_blobs()[0]->SetData(TestNumbers(net_->input_blobs()[0]->count(), 3));
  }

  // The values of all blobs, in their order.
  std::vector<Numbers> All() const {
    std::vector<Numbers> values;
    for (const auto& blob : net_->blobs()) values.push_back(blob->DataAsDouble());
    return values;
  }
  void RunLayerByLayer() {
    for (int i = 0; i < static_cast<int>(net_->layers().size()); ++i) net_->Forward(i, i);
  }
  // Errors are relative to the largest number of a blob.
  void ExpectAgree(const std::vector<Numbers>& actual, const std::vector<Numbers>& expected,
                   double tolerance) const {
    for (size_t b = 0; b < expected.size(); ++b) {
      double largest = 0, worst = 0;
      ASSERT_EQ(actual[b].size(), expected[b].size());
      for (size_t i = 0; i < expected[b].size(); ++i) {
        largest = std::max(largest, std::abs(expected[b][i]));
        worst = std::max(worst, std::abs(actual[b][i] - expected[b][i]));
        ASSERT_TRUE(std::isfinite(actual[b][i])) << net_->blob_names()[b] << " " << i;
      }
      EXPECT_LE(worst, tolerance * largest) << "blob " << net_->blob_names()[b];
    }
  }

  std::unique_ptr<Net> net_;
};

TEST_P(ModelsTest, FusedAndLayerByLayerAgree) {
  const double tolerance = GetParam().on.type == kFloat ? 2e-4 : 5e-2;
  net_->Forward();
  const std::vector<Numbers> fused = All();
  net_->Forward();
  // Reading the blobs that a forward did not write changes nothing. On CUDA a blob that is read
  // between forwards may be computed by another library from then on.
  const bool measured = GetParam().on.device->backend() == "cuda";
  ExpectAgree(All(), fused, measured ? tolerance : 0);
  RunLayerByLayer();
  const std::vector<Numbers> cut = All();
  net_->set_after_forward([](int) {});
  net_->Forward();
  // Layer by layer, whole and in parts, is one computation.
  EXPECT_EQ(All(), cut);
  net_->set_after_forward(nullptr);
  ExpectAgree(fused, cut, tolerance);
  net_->Forward();
  ExpectAgree(All(), fused, measured ? tolerance : 0);
}

// A partial forward between two whole ones rebuilds nothing, and the whole ones stay what they are.
TEST_P(ModelsTest, PartsBetweenWholePassesChangeNothing) {
  Device* const device = GetParam().on.device;
  const int last = static_cast<int>(net_->layers().size()) - 1;
  const auto whole = [&] {
    device->ResetCounters();
    net_->Forward();
    return device->counters();
  };
  const auto output = [&] { return net_->output_blobs()[0]->DataAsDouble(); };
  net_->Forward();
  net_->Forward(0, last / 2);
  net_->Forward();
  const Numbers before = output();
  const DeviceCounters alone = whole();
  device->ResetCounters();
  net_->Forward(0, last / 2);
  const DeviceCounters part = device->counters();
  const DeviceCounters again = whole();
  EXPECT_EQ(output(), before);
  // A graph is recorded again after its buffers were used by others, but not in every forward.
  if (!device->can_capture()) {
    EXPECT_EQ(again.library_calls, alone.library_calls);
    EXPECT_EQ(again.launches, alone.launches);
  }
  for (const DeviceCounters* counters : {&alone, &part, &again}) {
    EXPECT_EQ(counters->builds, 0);
    EXPECT_EQ(counters->allocations, 0);
    EXPECT_EQ(counters->downloads, 0);
    EXPECT_EQ(counters->syncs, 0);
  }
}

// The cost of a warm forward of a model with the libraries of the project, batch 1.
struct ModelCounts {
  const char* model;
  // Launches and calls of libraries, layer by layer and with steps of several layers.
  int64_t layer_by_layer, fused;
  // With a library that prefers kNHWC: conversions of layouts, and bottoms that Concat copies.
  int conversions, copies;
};

void PrintTo(const ModelCounts& counts, std::ostream* out) { *out << counts.model; }

constexpr ModelCounts kCounts[] = {
    {"alexnet", 24, 17, 1, 0},      {"caffenet", 24, 17, 1, 0},
    {"caffenet_moe", 70, 61, 2, 0}, {"cifar10_quick", 14, 12, 1, 0},
    {"googlenet", 169, 76, 1, 0},   {"lenet", 10, 9, 1, 0},
    {"lenet_moe", 34, 32, 2, 0},    {"mobilenet_v1", 111, 30, 1, 0},
    {"resnet50", 229, 90, 1, 0},    {"squeezenet", 73, 31, 1, 0},
    {"vgg16", 40, 25, 1, 0},
};

std::unique_ptr<Net> MakeModel(const std::string& model) {
  NetParameter parameter = ReadNetParameter(DeployFile(model));
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  // Counts do not depend on weights, and zeros are made at once.
  for (LayerParameter& layer : *parameter.mutable_layer()) {
    layer.mutable_convolution_param()->clear_weight_filler();
    layer.mutable_inner_product_param()->clear_weight_filler();
  }
  return std::make_unique<Net>(parameter, options);
}

TEST(ModelListTest, EveryModelIsCounted) {
  std::vector<std::string> listed;
  for (const ModelCounts& counts : kCounts) listed.push_back(counts.model);
  EXPECT_EQ(listed, Models());
}

class ModelCountsTest : public testing::TestWithParam<ModelCounts> {
 protected:
  void SetUp() override { setenv("CAFFE_LIBRARY", "conv=native,gemm=native,pool=native", 1); }
  void TearDown() override { unsetenv("CAFFE_LIBRARY"); }
  static int64_t WorkOf(Net* net) {
    Device* const device = Runtime::Get().cpu();
    for (int i = 0; i < 2; ++i) net->Forward();
    device->ResetCounters();
    net->Forward();
    const DeviceCounters counters = device->counters();
    EXPECT_EQ(counters.builds + counters.allocations + counters.syncs, 0);
    EXPECT_EQ(counters.uploads + counters.downloads + counters.copies, 0);
    return counters.launches + counters.library_calls;
  }
};

TEST_P(ModelCountsTest, LaunchesOfAForward) {
  const auto net = MakeModel(GetParam().model);
  EXPECT_EQ(WorkOf(net.get()), GetParam().fused);
  net->set_after_forward([](int) {});
  EXPECT_EQ(WorkOf(net.get()), GetParam().layer_by_layer);
}

// The plan alone: nothing runs.
TEST_P(ModelCountsTest, ConversionsAndCopies) {
  unsetenv("CAFFE_LIBRARY");
  AddLibrary(ChannelsLastLibrary("counts_channels_last"));
  const auto net = MakeModel(GetParam().model);
  int copies = 0;
  for (const StepInfo& step : net->Steps()) copies += step.copies;
  EXPECT_EQ(copies, GetParam().copies);
  EXPECT_EQ(net->plan().conversions(), GetParam().conversions);
  RemoveLibrary("counts_channels_last");
}

INSTANTIATE_TEST_SUITE_P(All, ModelCountsTest, testing::ValuesIn(kCounts),
                         [](const auto& info) { return info.param.model; });

INSTANTIATE_TEST_SUITE_P(All, ModelsTest, testing::ValuesIn(ModelsAndDevices()),
                         [](const auto& info) {
                           return info.param.model + "_" + TestName(info.param.on);
                         });

}  // namespace
}  // namespace caffe
