#include "caffe/io/hdf5_messages.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

template <class Message> Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(Hdf5MessagesTest, WeightsComeBack) {
  const TemporaryFolder folder;
  const std::string layers =
      "layer { name: 'conv' blobs { shape { dim: 2 dim: 3 } data: [1, 2, 3, 4, 5, 6] "
      "        diff: [6, 5, 4, 3, 2, 1] } blobs { shape { dim: 2 } double_data: [0.1, 7] } } "
      "layer { name: 'conv/1x1' blobs { shape { dim: 1 } data: 8 } } "
      "layer { name: 'block/5x5' blobs { shape { } data: 9 } } ";
  const std::string ranges = "quantizer { name: 'data' observed_min: -1 observed_max: 0.3 }";
  WriteNetHdf5(folder / "w.h5", Parse<NetParameter>(layers + "layer { name: 'relu' } " + ranges));
  const NetParameter net = ReadNetHdf5(folder / "w.h5");
  const NetParameter expected = Parse<NetParameter>(layers + ranges);
  // Layers are sorted by name, a layer inside another's group after it; relu has no parameters.
  ASSERT_EQ(net.layer_size(), 3);
  const int places[] = {2, 0, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(net.layer(i).DebugString(), expected.layer(places[i]).DebugString());
  }
  EXPECT_EQ(net.quantizer(0).DebugString(), expected.quantizer(0).DebugString());
}

// As BVLC's names go.
TEST(Hdf5MessagesTest, LayoutIsBvlcs) {
  const TemporaryFolder folder;
  WriteNetHdf5(folder / "w.h5",
               Parse<NetParameter>("layer { name: 'ip' blobs { shape { dim: 2 } data: [1, 2] "
                                   "diff: [3, 4] } blobs { } } layer { name: 'relu' }"));
  const Hdf5Reader weights(folder / "w.h5");
  EXPECT_EQ(weights.Children("/"), std::vector<std::string>({"data", "diff"}));
  EXPECT_EQ(weights.Children("/data"), std::vector<std::string>({"ip", "relu"}));
  EXPECT_EQ(weights.Children("/data/ip"), std::vector<std::string>({"0"}));
  EXPECT_EQ(weights.ShapeOf("/diff/ip/0"), Shape({2}));
  WriteSolverStateHdf5(folder / "s.h5",
                       Parse<SolverState>("iter: 12 current_step: 3 learned_net: 'a.h5' "
                                          "history { shape { dim: 1 dim: 2 } data: [1, 2] }"));
  const Hdf5Reader state(folder / "s.h5");
  EXPECT_EQ(state.ReadInteger("/iter"), 12);
  EXPECT_EQ(state.ReadInteger("/current_step"), 3);
  EXPECT_EQ(state.ReadString("/learned_net"), "a.h5");
  EXPECT_EQ(state.ShapeOf("/history/0"), Shape({1, 2}));
}

TEST(Hdf5MessagesTest, SolverStatesComeBack) {
  const TemporaryFolder folder;
  SolverState state = Parse<SolverState>(
      "iter: 12 current_step: 3 learned_net: 'some/a.caffemodel.h5' loss_scale: 1024 "
      "loss_scale_good_steps: 5");
  for (int i = 0; i < 12; ++i) {
    BlobProto* blob = state.add_history();
    blob->mutable_shape()->add_dim(1);
    blob->add_data(static_cast<float>(i));
  }
  WriteSolverStateHdf5(folder / "s.h5", state);
  EXPECT_EQ(ReadSolverStateHdf5(folder / "s.h5").DebugString(), state.DebugString());
}

TEST(Hdf5MessagesTest, BlobsAreAsLargeAsTheirShapes) {
  const TemporaryFolder folder;
  for (const std::string data :
       {"data: 1", "double_data: [1, 2, 3]", "data_type: CAFFE_HALF packed_data: 'ab'",
        "data: [1, 2] diff: 1"}) {
    const auto net =
        Parse<NetParameter>("layer { name: 'ip' blobs { shape { dim: 2 } " + data + " } }");
    EXPECT_TRUE(Holds(ErrorOf([&] { WriteNetHdf5(folder / "w.h5", net); }),
                      "/ip/0' has shape 2 (2), but "));
  }
}

TEST(Hdf5MessagesTest, IterationsOfDamagedStatesAreErrors) {
  const TemporaryFolder folder;
  for (const double iteration : {-1.0, 4294967301.0}) {
    Hdf5Writer file(folder / "s.h5");
    file.Write("/iter", {1}, &iteration);
    file.MakeGroup("/history");
    file.Commit();
    EXPECT_TRUE(Holds(ErrorOf([&] { ReadSolverStateHdf5(folder / "s.h5"); }), "s.h5: '/iter' is "));
  }
}

TEST(Hdf5MessagesTest, OtherFilesAreErrors) {
  const TemporaryFolder folder;
  {
    Hdf5Writer file(folder / "other.h5");
    file.WriteInteger("/data/x", 1);
    file.Commit();
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadNetHdf5(folder / "other.h5"); }),
                    "other.h5: dataset '/data/x' is not a parameter of a layer"));
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadSolverStateHdf5(folder / "other.h5"); }),
                    "other.h5: '/iter' or '/history' is missing"));
  WriteSolverStateHdf5(folder / "s.h5", SolverState());
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadNetHdf5(folder / "s.h5"); }), "it has no group '/data'"));
}

// A group's links lie in tables: "SNOD", 4 bytes, then 40 bytes for each link: a place for its
// name, the address of what it leads to, and what is cached of that. Every link leads to every
// place once.
TEST(Hdf5MessagesTest, LinksThatLeadElsewhereDoNoHarm) {
  const TemporaryFolder folder;
  WriteNetHdf5(folder / "w.h5",
               Parse<NetParameter>("layer { name: 'a' blobs { shape { dim: 2 } data: [1, 2] } } "
                                   "layer { name: 'b/c' blobs { shape { dim: 1 } data: 3 } }"));
  const std::string whole = folder.Get("w.h5");
  std::vector<size_t> links;
  for (size_t at = whole.find("SNOD"); at != whole.npos; at = whole.find("SNOD", at + 4)) {
    uint16_t count = 0;
    std::memcpy(&count, &whole[at + 6], sizeof(count));
    for (uint16_t i = 0; i < count; ++i) links.push_back(at + 8 + 40 * i + 8);
  }
  if (links.empty()) GTEST_SKIP() << "this HDF5 lays its files out in another way";
  int loops = 0;
  for (size_t link : links) {
    for (size_t other : links) {
      for (size_t bytes : {8, 32}) {  // with what is cached and without
        std::string bad = whole;
        bad.replace(link, bytes, whole.substr(other, bytes));
        const std::string path = folder.Put("bad.h5", bad);
        const std::string error = ErrorOf([&] { ReadNetHdf5(path); });
        EXPECT_TRUE(error.empty() || Holds(error, path));
        loops += error.find("' is the same as group '") != error.npos;
      }
    }
  }
  EXPECT_GT(loops, 0);
}

TEST(Hdf5MessagesTest, GroupsInGroupsHaveALimit) {
  const TemporaryFolder folder;
  NetParameter net = Parse<NetParameter>("layer { blobs { shape { dim: 1 } data: 3 } }");
  for (const int depth : {99, 100}) {
    std::string name = "a";
    for (int i = 1; i < depth; ++i) name += "/a";
    net.mutable_layer(0)->set_name(name);
    const std::string refused = ErrorOf([&] { WriteNetHdf5(folder / "w.h5", net); });
    if (depth == 99) {
      EXPECT_EQ(refused, "");
      EXPECT_EQ(ErrorOf([&] { ReadNetHdf5(folder / "w.h5"); }), "");
      continue;
    }
    EXPECT_TRUE(Holds(refused, "it is nested in 100 groups or more"));
    const float one = 1;
    Hdf5Writer file(folder / "deep.h5");
    file.Write("/data/" + name + "/0", {1}, &one);
    file.Commit();
    const std::string error = ErrorOf([&] { ReadNetHdf5(folder / "deep.h5"); });
    EXPECT_TRUE(Holds(error, "deep.h5: group '/data/a/a"));
    EXPECT_TRUE(Holds(error, "nested in more than 100 groups"));
  }
}

// A layer without parameters may have any name: its group is omitted where it is in the way.
TEST(Hdf5MessagesTest, LayersWithoutParametersMayHaveAnyName) {
  const TemporaryFolder folder;
  const std::string one = "blobs { shape { dim: 1 } data: 3 }";
  WriteNetHdf5(folder / "w.h5", Parse<NetParameter>("layer { name: 'a' " + one +
                                                    "} layer { name: 'a/0' } "
                                                    "layer { name: '' } layer { name: './x' } "
                                                    "layer { name: 'b' } layer { name: 'b/1' " +
                                                    one + "}"));
  std::set<std::string> empty;
  const NetParameter net = ReadNetHdf5(folder / "w.h5", &empty);
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).name(), "a");
  EXPECT_EQ(net.layer(1).name(), "b/1");
  EXPECT_TRUE(empty.contains("b"));
}

}  // namespace
}  // namespace caffe
