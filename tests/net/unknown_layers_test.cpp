// Nets with layers of types that are not here.
#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/net/net_file.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string FileError(const TemporaryFolder& folder, const std::string& text, int phase = 1) {
  const std::string path = folder.Put("net.prototxt", text);
  return ErrorOf([&] {
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.phase = phase;
    Net(path, options);
  });
}

TEST(UnknownLayersTest, AreListedWithLines) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      FileError(folder,
                "layer { name: 'data' type: 'Input' top: 'data'\n"
                "  input_param { shape { dim: 2 } } }\n"
                "layer {\n"
                "  name: 'norm' type: 'MVN' bottom: 'data' top: 'norm' }\n"
                "layer { name: 'r' type: 'Relu' bottom: 'norm' top: 'r' }\n"
                "layer { name: 'x' type: 'Xyzzy' bottom: 'r' top: 'x' }\n"),
      folder / "net.prototxt" +
          ": 3 unknown names:\n"
          "  line 3: layer norm (MVN): there is no layer type 'MVN'\n"
          "  line 5: layer r (Relu): there is no layer type 'Relu'; did you mean 'ReLU'?\n"
          "  line 6: layer x (Xyzzy): there is no layer type 'Xyzzy'; `caffe layers` lists all\n" +
          DescribeForeignLayer("MVN"));
}

TEST(UnknownLayersTest, AreListedBesideUnknownFields) {
  const TemporaryFolder folder;
  const std::string error = FileError(folder,
                                      "layer { name: 'norm' type: 'MVN' }\n"
                                      "layer { name: 'own' type: 'Python' }\n"
                                      "layer { name: 'r' type: 'ReLU' relu_param { a: 1 } }\n");
  EXPECT_TRUE(Holds(error,
                    "2 unknown names:\n  line 1: layer norm (MVN): unknown type"
                    "\n  line 3: layer r (ReLU): ReLUParameter has no field \"a\"\n"));
}

// The phase, a level or a stage may leave a layer out; lines stay those of the file.
TEST(UnknownLayersTest, LayersThatAreLeftOutMayBeUnknown) {
  const TemporaryFolder folder;
  const std::string text =
      "layer { name: 'data' type: 'AnnotatedData' top: 'data' include { phase: TRAIN } }\n"
      "layer { name: 'data' type: 'Input' top: 'data' include { phase: TEST }\n"
      "        input_param { shape { dim: 2 } } }\n"
      "layer { name: 'p' type: 'PriorBox' bottom: 'data' top: 'p' include { stage: 'boxes' } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }\n";
  EXPECT_EQ(FileError(folder, text), "");
  EXPECT_TRUE(Holds(FileError(folder, text, 0), "line 1: layer data (AnnotatedData)"));
  EXPECT_TRUE(Holds(FileError(folder, text + "layer { name: 'e' type: 'Embed' }"),
                    "line 6: layer e (Embed)"));
}

// Inputs become a layer, and layers of the first format are upgraded: both keep lines right.
TEST(UnknownLayersTest, LinesOfUpgradedNets) {
  const TemporaryFolder folder;
  EXPECT_TRUE(Holds(FileError(folder,
                              "input: 'data' input_shape { dim: 2 }\n"
                              "layer { name: 'm' type: 'MVN' bottom: 'data' top: 'm' }\n"),
                    "line 2: layer m (MVN)"));
  EXPECT_TRUE(Holds(FileError(folder,
                              "input: 'data' input_dim: 1 input_dim: 1 input_dim: 1\n"
                              "input_dim: 1\n"
                              "layers { name: 'r' type: RELU bottom: 'data' top: 'r' }\n"
                              "layers { name: 'm' type: MVN bottom: 'r' top: 'm' }\n"),
                    "line 4: layer m (MVN)"));
}

TEST(UnknownLayersTest, MessagesHaveNoLines) {
  const std::string error = MessageOf([] {
    MakeNet("layer { name: 'a' type: 'Embed' } layer { name: 'b' type: 'SPP' }",
            Runtime::Get().cpu());
  });
  EXPECT_EQ(error,
            "2 unknown names:\n"
            "  layer a (Embed): there is no layer type 'Embed'\n"
            "  layer b (SPP): there is no layer type 'SPP'\n" +
                DescribeForeignLayer("Embed") + "\n" + DescribeForeignLayer("SPP"));
}

TEST(UnknownLayersTest, PythonLayersNeedPython) {
  const std::string error =
      MessageOf([] { MakeNet("layer { name: 'a' type: 'Python' }", Runtime::Get().cpu()); });
  EXPECT_TRUE(Holds(error,
                    "layer a (Python): there is no layer type 'Python': layers of type "
                    "Python run inside Python only"));
}

}  // namespace
}  // namespace caffe
