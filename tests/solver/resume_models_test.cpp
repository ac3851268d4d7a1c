#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

// The models of this repository, trained by their solvers on few images: training repeats, and
// resumes, bit for bit. LeNet reads shuffled rows, CIFAR-10 quick shuffled images in random crops,
// mirrored; both get a dropout before their first inner product.
namespace caffe {
namespace {

constexpr int kBatch = 2;

struct Case {
  DeviceType place;
  std::string model, rule;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DeviceType& place : DevicesAndTypes({kFloat, kHalf})) {
    for (const char* model : {"lenet", "cifar10_quick"}) {
      // A driver that compiles slowly runs each model in one type.
      const bool lenet = std::string_view(model) == "lenet";
      if (CompilesSlowly(*place.device) && lenet != (place.type == kHalf)) continue;
      for (const char* rule : {"SGD", "Adam"}) cases.push_back({place, model, rule});
    }
  }
  return cases;
}

class ResumeModelsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (IsLenet()) {
      PutRows();
    } else {
      PutImages();
    }
  }

  bool IsLenet() const { return GetParam().model == "lenet"; }

  // Two files of 3 and 2 digits: batches go across their ends.
  void PutRows() const {
    std::string list;
    for (int file = 0; file < 2; ++file) {
      const std::string path = folder_ / ("rows" + std::to_string(file) + ".h5");
      const int count = 3 - file;
      const std::vector<double> rows = TestNumbers(count * 28 * 28, file + 1);
      const std::vector<float> data(rows.begin(), rows.end());
      std::vector<float> labels(count);
      for (int i = 0; i < count; ++i) labels[i] = static_cast<float>(3 * file + i);
      Hdf5Writer writer(path);
      writer.Write("/data", {count, 1, 28, 28}, data.data());
      writer.Write("/label", {count}, labels.data());
      writer.Commit();
      list += path + "\n";
    }
    folder_.Put("list.txt", list);
  }

  // Images larger than the net's, and the mean that the model subtracts.
  void PutImages() const {
    std::string list;
    for (int i = 0; i < 5; ++i) {
      const std::string name = std::to_string(i) + ".png";
      folder_.Put(name, PngOf(TestImage(36, 36, 3, 37 * i)));
      list += name + " " + std::to_string(i) + "\n";
    }
    folder_.Put("list.txt", list);
    BlobProto mean;
    mean.set_num(1);
    mean.set_channels(3);
    mean.set_height(36);
    mean.set_width(36);
    for (int i = 0; i < 3 * 36 * 36; ++i) mean.add_data(static_cast<float>(120 + i % 11));
    WriteBinaryProto(folder_ / "mean.binaryproto", mean);
  }

  void ReplaceData(LayerParameter* data) const {
    data->clear_data_param();
    if (IsLenet()) {
      data->set_type("HDF5Data");
      data->clear_transform_param();
      HDF5DataParameter* rows = data->mutable_hdf5_data_param();
      rows->set_source(folder_ / "list.txt");
      rows->set_batch_size(kBatch);
      rows->set_shuffle(true);
      return;
    }
    data->set_type("ImageData");
    TransformationParameter* transform = data->mutable_transform_param();
    ASSERT_TRUE(transform->has_mean_file());
    transform->set_mean_file(folder_ / "mean.binaryproto");
    transform->set_crop_size(32);
    transform->set_mirror(true);
    ImageDataParameter* images = data->mutable_image_data_param();
    images->set_source(folder_ / "list.txt");
    images->set_root_folder(folder_.path().string() + "/");
    images->set_batch_size(kBatch);
    images->set_shuffle(true);
  }

  NetParameter Model() const {
    const std::string& name = GetParam().model;
    NetParameter net = ReadNetParameter(
        Concat(CAFFE_SOURCE_DIR "/models/", name, "/", name, "_train_test.prototxt"));
    NetParameter changed = net;
    changed.clear_layer();
    int data = 0, dropouts = 0;
    for (LayerParameter layer : net.layer()) {
      if (layer.type() == "Data") {
        ReplaceData(&layer);
        ++data;
      }
      if (layer.type() == "InnerProduct" && dropouts == 0) {
        LayerParameter* drop = changed.add_layer();
        drop->set_name("drop");
        drop->set_type("Dropout");
        drop->add_bottom(layer.bottom(0));
        drop->add_top("drop");
        layer.set_bottom(0, "drop");
        ++dropouts;
      }
      *changed.add_layer() = layer;
    }
    EXPECT_EQ(2, data);
    EXPECT_EQ(1, dropouts);
    return changed;
  }

  std::unique_ptr<Solver> Make(int64_t seed, int snapshot = 0) const {
    const auto& [place, model, rule] = GetParam();
    SolverParameter parameter;
    ReadTextProto(Concat(CAFFE_SOURCE_DIR "/models/", model, "/", model, "_solver.prototxt"),
                  &parameter);
    EXPECT_EQ(0.9f, parameter.momentum());
    parameter.clear_net();
    *parameter.mutable_net_param() = Model();
    parameter.set_type(rule);
    parameter.set_test_iter(0, 2);
    parameter.set_test_interval(2);
    parameter.set_display(0);
    parameter.set_snapshot(snapshot);
    parameter.set_snapshot_prefix(folder_ / "s");
    parameter.set_random_seed(seed);
    parameter.set_data_type(static_cast<DataTypeProto>(place.type.info().proto));
    parameter.set_loss_scale_init(1024);
    parameter.set_loss_scale_window(3);
    auto solver = std::make_unique<Solver>(parameter, place.device);
    solver->net()->Keep({"drop"});  // State reads it after training
    return solver;
  }

  static TrainingState State(Solver& solver) {
    return StateOf(solver, {"data", "label", "drop", "loss"});
  }

  TemporaryFolder folder_;
};

TEST_P(ResumeModelsTest, TwoRunsOfASeedAreEqual) {
  auto one = Make(7), two = Make(7), other = Make(8);
  one->Step(5);
  two->Step(5);
  other->Step(5);
  const TrainingState state = State(*one);
  EXPECT_EQ("", FirstDifference(state, State(*two)));
  EXPECT_NE("", FirstDifference(state, State(*other)));
}

TEST_P(ResumeModelsTest, AResumedRunEqualsAnUninterruptedOne) {
  auto whole = Make(7, 3);
  whole->Step(5);
  const TrainingState state = State(*whole);
  // Another seed: the state brings its own.
  const std::string file = folder_ / "s_iter_3.solverstate";
  auto resumed = Make(99);
  resumed->Restore(file);
  resumed->Step(2);
  EXPECT_EQ(5, resumed->iter());
  EXPECT_EQ("", FirstDifference(state, State(*resumed)));

  // The same weights and history with data and masks of another seed end elsewhere.
  SolverState without;
  ReadBinaryProto(file, &without);
  without.clear_net_state();
  WriteBinaryProto(file, without);
  auto other = Make(99);
  other->Restore(file);
  other->Step(2);
  EXPECT_NE(state[0].second, State(*other)[0].second);
}

INSTANTIATE_TEST_SUITE_P(All, ResumeModelsTest, testing::ValuesIn(Cases()), [](const auto& info) {
  const bool adam = info.param.rule == "Adam";
  return TestName(info.param.place) + "_" + info.param.model + (adam ? "_adam" : "_sgd");
});

}  // namespace
}  // namespace caffe
