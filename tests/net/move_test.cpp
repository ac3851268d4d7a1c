#include <algorithm>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "data/test_database.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

// A net that goes to another device and back goes on as one that stays where it is: layers keep
// what the user and the iterations before put into them.
namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

// Where nets go from the CPU. From the CPU to itself they go to a second one.
Device* Away(Device* device) {
  static CpuDevice second;
  return device == Cpu() ? &second : device;
}

std::string Typed(DataType type, const std::string& text) {
  const auto proto = static_cast<DataTypeProto>(type.info().proto);
  return Concat("data_type: ", DataTypeProto_Name(proto), " ", text);
}

class MoveTest : public testing::TestWithParam<DeviceType> {
 protected:
  Device* away() const { return Away(GetParam().device); }
  DataType type() const { return GetParam().type; }
  // Moves a net with every step: there and back.
  void Move(Net* net, int step) const { net->SetDevice(step % 2 == 0 ? away() : Cpu()); }
};

void ExpectSame(const Net& moved, const Net& fixed, double tolerance, const std::string& what) {
  for (size_t i = 0; i < fixed.learnable_params().size(); ++i) {
    const BlobBase& one = *moved.learnable_params()[i];
    const BlobBase& two = *fixed.learnable_params()[i];
    ExpectNear(one.DataAsDouble(), two.DataAsDouble(), tolerance, what + ", " + two.name());
    ExpectNear(one.DiffAsDouble(), two.DiffAsDouble(), tolerance,
               what + ", gradient of " + two.name());
  }
}

// --- Training and testing ------------------------------------------------------------------------

// Positive numbers "a" from an input and weights, then `layers` from a to "y", then a loss.
std::string Between(const std::string& layers) {
  return InputText("x", {4, 3, 6, 6}) + InputText("label", {4}) +
         "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param { "
         "num_output: 4 kernel_size: 1 weight_filler { type: 'uniform' min: -1 max: 1 } } } "
         "layer { name: 'abs' type: 'AbsVal' bottom: 'conv' top: 'a' } " +
         layers + InnerProductText("ip", "y", 3) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

struct LayerCase {
  const char* layer;
  bool in_place;
};

const LayerCase kLayers[] = {
    {"type: 'BatchNorm'", false},
    {"type: 'BatchNorm' batch_norm_param { fused_relu: true }", true},
    {"type: 'Bias' bias_param { filler { type: 'uniform' } }", true},
    {"type: 'BN' bn_param { momentum: 0.5 }", true},
    {"type: 'BN' bn_param { frozen: true }", false},
    {"type: 'BN' bn_param { bn_mode: LEARN }", true},
    {"type: 'BN' bn_param { bn_mode: INFERENCE }", true},
    {"type: 'Clip' clip_param { min: 0.1 max: 0.5 }", true},
    {"type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "
     "'uniform' min: -0.5 max: 0.5 } }",
     false},
    {"type: 'Deconvolution' convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "
     "'uniform' min: -0.5 max: 0.5 } }",
     false},
    {"type: 'DepthwiseConvolution' convolution_param { kernel_size: 3 weight_filler { type: "
     "'uniform' "
     "min: -0.5 max: 0.5 } }",
     false},
    {"type: 'Dropout'", true},
    {"type: 'ELU'", true},
    {"type: 'Interp' interp_param { zoom_factor: 2 pad_beg: -1 }", false},
    {"type: 'Log' log_param { shift: 1 }", true},
    {"type: 'LRN'", false},
    {"type: 'Permute' permute_param { order: 0 order: 2 order: 1 }", false},
    {"type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }", false},
    {"type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 pool: AVE }", false},
    {"type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 pool: STOCHASTIC }", false},
    {"type: 'Power' power_param { power: 2 shift: 1 }", true},
    {"type: 'PReLU'", true},
    {"type: 'ReLU'", true},
    {"type: 'Reduction' reduction_param { axis: 2 operation: SUMSQ }", false},
    {"type: 'Scale' scale_param { bias_term: true filler { type: 'uniform' } }", true},
    {"type: 'ShuffleChannel' shuffle_channel_param { group: 2 }", false},
    {"type: 'Sigmoid'", true},
    {"type: 'Softmax'", true},
    {"type: 'Swish'", true},
    {"type: 'Tile' tile_param { tiles: 2 }", false},
    {"type: 'Upsample'", false},
};

// Layers that need more than one layer around them.
const char* const kTexts[] = {
    "layer { name: 'half' type: 'Power' bottom: 'a' top: 'b' power_param { power: 2 } } "
    "layer { name: 'y' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'y' "
    "eltwise_param { operation: MAX } } ",
    "layer { name: 'pool' type: 'Pooling' bottom: 'a' top: 'pool' top: 'mask' "
    "pooling_param { kernel_size: 3 stride: 2 } } "
    "layer { name: 'y' type: 'Upsample' bottom: 'pool' bottom: 'mask' top: 'y' "
    "upsample_param { upsample_h: 6 upsample_w: 6 } } ",
    "layer { name: 'rois' type: 'DummyData' top: 'rois' dummy_data_param { "
    "shape { dim: 4 dim: 5 } data_filler { type: 'uniform' min: 0 max: 3.9 } } } "
    "layer { name: 'y' type: 'ROIPooling' bottom: 'a' bottom: 'rois' top: 'y' "
    "roi_pooling_param { pooled_h: 2 pooled_w: 2 } } ",
    "layer { name: 'rois' type: 'DummyData' top: 'rois' dummy_data_param { "
    "shape { dim: 4 dim: 5 } data_filler { type: 'uniform' min: 0 max: 3.9 } } } "
    "layer { name: 'y' type: 'PSROIPooling' bottom: 'a' bottom: 'rois' top: 'y' "
    "psroi_pooling_param { spatial_scale: 1.5 output_dim: 1 group_size: 2 } } ",
    "layer { name: 'half' type: 'Pooling' bottom: 'a' top: 'b' pooling_param { kernel_size: 3 } } "
    "layer { name: 'y' type: 'Crop' bottom: 'a' bottom: 'b' top: 'y' crop_param { offset: 1 } } ",
    "layer { name: 'half' type: 'Reduction' bottom: 'a' top: 'b' reduction_param { axis: 2 } } "
    "layer { name: 'y' type: 'Axpy' bottom: 'b' bottom: 'a' bottom: 'a' top: 'y' } ",
    "layer { name: 'half' type: 'Parameter' top: 'b' parameter_param { shape { dim: 4 } } } "
    "layer { name: 'y' type: 'Bias' bottom: 'a' bottom: 'b' top: 'y' } ",
};

// The middle of training: between iterations, and between the two passes of one.
TEST_P(MoveTest, TrainingGoesOn) {
  std::vector<std::string> texts(std::begin(kTexts), std::end(kTexts));
  for (const LayerCase& c : kLayers) {
    // In place of a copy, which is not in place itself.
    texts.push_back(c.in_place ? Concat("layer { name: 'copy' type: 'Power' bottom: 'a' top: 'y' } "
                                        "layer { name: 'y' bottom: 'y' top: 'y' ",
                                        c.layer, " } ")
                               : Concat("layer { name: 'y' bottom: 'a' top: 'y' ", c.layer, " } "));
  }
  for (const std::string& text : texts) {
    for (const bool between_passes : {false, true}) {
      const auto fixed = MakeNet(Typed(type(), Between(text)), Cpu(), 0);
      const auto moved = MakeNet(Typed(type(), Between(text)), Cpu(), 0);
      for (int step = 0; step < 4; ++step) {
        for (Net* net : {fixed.get(), moved.get()}) {
          net->BlobByName("x")->SetData(TestNumbers(4 * 3 * 36, 10 + step));
          net->BlobByName("label")->SetData({0, 2, 1, static_cast<double>(step % 3)});
          net->ClearParamDiffs();
        }
        if (!between_passes) Move(moved.get(), step);
        fixed->Forward();
        moved->Forward();
        if (between_passes) Move(moved.get(), step);
        fixed->Backward();
        moved->Backward();
        const std::string what =
            Concat(text, between_passes ? "between passes, step " : "step ", step);
        const double loss = fixed->Loss();
        EXPECT_NEAR(moved->Loss(), loss, 4 * Tolerance(type()) * std::max(1.0, std::abs(loss)))
            << what;
        ExpectSame(*moved, *fixed, 8 * Tolerance(type()), what);
        if (HasFailure()) return;
      }
    }
  }
}

// A ReLU that another layer computes, statistics of BatchNorm, Dropout that does nothing.
TEST_P(MoveTest, TestingGoesOn) {
  const std::string text =
      Between(
          "layer { name: 'bn' type: 'BatchNorm' bottom: 'a' top: 'bn' } "
          "layer { name: 'y' type: 'Convolution' bottom: 'bn' top: 'y' convolution_param { "
          "num_output: 4 kernel_size: 3 weight_filler { type: 'uniform' min: -1 max: 1 } } } " +
          ReluText("relu", "y") + "layer { name: 'drop' type: 'Dropout' bottom: 'y' top: 'y' } ") +
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' } ";
  const auto fixed = MakeNet(Typed(type(), text), Cpu()),
             moved = MakeNet(Typed(type(), text), Cpu());
  for (int step = 0; step < 4; ++step) {
    Move(moved.get(), step);
    for (Net* net : {fixed.get(), moved.get()}) {
      const auto& blobs = net->LayerByName("bn")->blobs();
      if (step == 1) {
        blobs[0]->SetData({1, 2, 3, 0.5});
        blobs[1]->SetData({2, 3, 4, 1});
        blobs[2]->SetData({2});
      }
      net->BlobByName("x")->SetData(TestNumbers(4 * 3 * 36, 10 + step));
      net->BlobByName("label")->SetData({0, 2, 1, 1});
      net->Forward();
    }
    ExpectNear(Values(*moved, "ip"), Values(*fixed, "ip"), 8 * Tolerance(type()), "ip");
    EXPECT_EQ(Values(*moved, "accuracy"), Values(*fixed, "accuracy"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MoveTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

// --- Sources -------------------------------------------------------------------------------------

class MoveSourceTest : public testing::TestWithParam<DeviceType> {
 protected:
  MoveSourceTest() {
    MakeDatabase(folder_ / "db", 7, 1, 3, 3);
    std::string images, tables;
    for (int i = 0; i < 7; ++i) {
      const std::string name = std::to_string(i) + ".png";
      images += folder_.Put(name, PngOf(TestImage(3, 3, 3, i))) + " " + std::to_string(i) + "\n";
    }
    folder_.Put("images.txt", images);
    for (int i = 0; i < 2; ++i) {
      const std::string path = folder_ / (std::to_string(i) + ".h5");
      Hdf5Writer file(path);
      std::vector<float> rows{0.f + i, 1.f + i, 2.f + i, 3.f + i, 4.f + i, 5.f + i};
      file.Write("data", {3, 2}, rows.data());
      file.Write("label", {3}, rows.data());
      file.Commit();
      tables += path + "\n";
    }
    folder_.Put("tables.txt", tables);
  }

  std::string Source(const std::string& type, const std::string& more) const {
    return "layer { name: 'data' type: '" + type + "' top: 'data' top: 'label' " + more + " } ";
  }
  // All of them, with their choices by chance.
  std::vector<std::string> Sources() const {
    const std::string crop = " transform_param { crop_size: 2 mirror: true }";
    return {
        Source("Data", "data_param { backend: LMDB batch_size: 2 rand_skip: 5 source: '" +
                           folder_ / "db" + "' }" + crop),
        Source("ImageData", "image_data_param { shuffle: true batch_size: 2 source: '" +
                                folder_ / "images.txt" + "' }" + crop),
        Source("HDF5Data", "hdf5_data_param { shuffle: true batch_size: 4 source: '" +
                               folder_ / "tables.txt" + "' }"),
        Source("MemoryData", "memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 }"),
        Source("DummyData",
               "dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } "
               "data_filler { type: 'uniform' } data_filler { value: 4 } }"),
    };
  }
  std::unique_ptr<Net> Make(const std::string& source) const {
    auto net = MakeNet(source, Cpu(), 0);
    if (auto* memory = dynamic_cast<MemoryData*>(net->LayerByName("data").get())) {
      memory->Reset(data_.data(), labels_.data(), 6);
    }
    return net;
  }

  Device* away() const { return Away(GetParam().device); }

  TemporaryFolder folder_;
  const std::vector<float> data_{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  const std::vector<float> labels_{0, 1, 2, 3, 4, 5};
};

TEST_P(MoveSourceTest, TheNextBatchComesNext) {
  for (const std::string& source : Sources()) {
    const auto fixed = Make(source), moved = Make(source);
    // Values that a constant filler made may be overwritten.
    for (Net* net : {fixed.get(), moved.get()})
      net->BlobByName("label")->SetData(std::vector<double>(net->BlobByName("label")->count(), 9));
    for (int step = 0; step < 9; ++step) {
      moved->SetDevice(step % 2 == 0 ? away() : Cpu());
      fixed->Forward();
      moved->Forward();
      for (const char* blob : {"data", "label"}) {
        EXPECT_EQ(moved->BlobByName(blob)->device(), moved->device());
        EXPECT_EQ(moved->BlobByName(blob)->shape(), fixed->BlobByName(blob)->shape());
        ASSERT_EQ(Values(*moved, blob), Values(*fixed, blob)) << source << "step " << step;
      }
    }
  }
}

// Batches have the shape that the layer gives them, even if the caller gave a top another one.
TEST_P(MoveSourceTest, ABatchFitsAReshapedTop) {
  for (const std::string& source : Sources()) {
    if (source.find("DummyData") != std::string::npos) continue;  // fills any shape
    const auto fixed = Make(source), changed = Make(source);
    changed->SetDevice(away());
    for (const Shape& shape : {Shape{1}, Shape{3000}, Shape{1}}) {
      changed->BlobByName("data")->Reshape(shape);
      changed->BlobByName("label")->Reshape(shape);
      fixed->Forward();
      changed->Forward();
      for (const char* blob : {"data", "label"}) {
        EXPECT_EQ(changed->BlobByName(blob)->shape(), fixed->BlobByName(blob)->shape());
        ASSERT_EQ(Values(*changed, blob), Values(*fixed, blob)) << source;
      }
    }
  }
}

// The shape and the values that the caller gave an input.
TEST_P(MoveSourceTest, InputsKeepShapeAndValues) {
  const auto net = MakeNet(InputText("x", {10, 3}) + InnerProductText("ip", "x", 2), Cpu());
  net->LayerByName("ip")->blobs()[0]->SetData({1, 0, 0, 0, 0, 1});
  net->LayerByName("ip")->blobs()[1]->SetData({0, 0});
  for (int step = 0; step < 4; ++step) {
    for (const int64_t rows : {2, 30}) {
      std::vector<double> x, y;
      for (int64_t i = 0; i < rows; ++i) {
        const double first = static_cast<double>(i + step);
        x.insert(x.end(), {first, 100, -first});
        y.insert(y.end(), {first, -first});
      }
      net->BlobByName("x")->Reshape({rows, 3});
      if (step < 2) net->Reshape();
      net->BlobByName("x")->SetData(x);
      net->SetDevice(net->device() == Cpu() ? away() : Cpu());
      net->Forward();
      EXPECT_EQ(net->BlobByName("x")->shape(), Shape({rows, 3}));
      EXPECT_EQ(Values(*net, "x"), x);
      EXPECT_EQ(Values(*net, "ip"), y);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MoveSourceTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
