// Nets that are correct but odd, or that ask for more than any machine has: they run, or an error
// says at once what is wrong.
#include <sys/resource.h>

#include <chrono>

#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "net/moe_support.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/in_child.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Clock = std::chrono::steady_clock;

const char* const kOnlyInTest =
    "layer { name: 'data' type: 'Input' top: 'data' include { phase: TEST }"
    " input_param { shape { dim: 1 } } }";
const char* const kOnlyInTrain =
    "layer { name: 'data' type: 'Input' top: 'data' include { phase: TRAIN }"
    " input_param { shape { dim: 1 } } }";

void RunAll(Net* net) {
  for (int i = 0; i < 2; ++i) {
    net->set_frees_memory(i == 1);
    net->Forward();
    net->Backward();
    net->ForwardBackward();
  }
  net->Reshape();
  net->ClearParamDiffs();
  EXPECT_EQ(net->Loss(), 0);
  net->Steps();
  NetParameter written;
  net->ToProto(&written);
  EXPECT_EQ(net->CopyTrainedLayersFrom(written).size(), 0u);
}

TEST(OddNetsTest, NetsWithoutLayersRunInBothPhases) {
  for (Device* device : TestDevices()) {
    for (const std::string& text : {std::string("name: 'empty'"), std::string()}) {
      for (const int phase : {TRAIN, TEST}) {
        const auto net = MakeNet(text, device, phase);
        EXPECT_TRUE(net->layers().empty());
        EXPECT_EQ(net->memory_needs().total(), 0);
        RunAll(net.get());
      }
    }
    RunAll(MakeNet(kOnlyInTest, device, TRAIN).get());
    RunAll(MakeNet(kOnlyInTrain, device, TEST).get());
  }
}

TEST(OddNetsTest, NetsOfInputsOrDataAloneRunInBothPhases) {
  const std::string dummy =
      "layer { name: 'dummy' type: 'DummyData' top: 'dummy' dummy_data_param { shape { dim: 2 } "
      "data_filler { type: 'gaussian' } } }";
  for (const std::string& text :
       {InputText("x", {2, 3}), dummy, InputText("x", {0, 3}), InputText("x", {2, 3}) + dummy}) {
    SCOPED_TRACE(text);
    for (const int phase : {TRAIN, TEST}) RunAll(MakeNet(text, Runtime::Get().cpu(), phase).get());
  }
}

TEST(OddNetsTest, ASolverWithoutLayersHasNothingToTrain) {
  SolverParameter solver;
  solver.set_base_lr(0.1f);
  solver.set_lr_policy("fixed");
  for (const char* const text : {"name: 'bare'", kOnlyInTest}) {
    *solver.mutable_net_param() = ParseNet(text);
    EXPECT_TRUE(Holds(ErrorOf([&] { Solver made(solver, Runtime::Get().cpu()); }),
                      "has no layer in phase TRAIN, so that there is nothing to train"));
  }
}

TEST(OddNetsTest, EmptyNetsOfAMixtureAreErrorsThatNameIt) {
  const auto error = [](const std::string& gating, const std::string& expert) {
    return ErrorOf([&] {
      MakeNet(InputText("data", {4, 3}) +
                  "layer { name: 'moe' type: 'MOE' bottom: 'data' top: 'moe' moe_param { "
                  "gating_net { " +
                  gating + " } expert_net { " + expert + " } } }",
              Runtime::Get().cpu(), TRAIN);
    });
  };
  const std::string gating = InputText("g", {1, 3}) + InnerProductText("gate", "g", 1);
  for (const std::string& text : {error("", ""), error(gating, ""), error("", gating),
                                  error(gating, InputText("x", {1, 3}))}) {
    EXPECT_TRUE(Holds(text, "moe (MOE): "));
  }
}

std::string Mixture(const std::string& expert, const std::string& more) {
  return "layer { name: 'moe' type: 'MOE' bottom: 'x' top: 'y' moe_param { " + more +
         " gating_net { " + InputText("x", {1, 3}) + InnerProductText("gate", "x", 4) +
         " } expert_net { " + InputText("x", {1, 3}) + expert + " } } } ";
}

TEST(OddNetsTest, MixturesHaveALimitOfExpertNets) {
  std::string nested = InnerProductText("y", "x", 3);
  for (int depth = 0; depth < 8; ++depth) nested = Mixture(nested, "expert_instances: 4");
  const std::string flat = InnerProductText("y", "x", 3);
  std::vector<std::string> texts{nested};
  for (const char* const count : {"16385", "2147483648", "9223372036854775807"}) {
    texts.push_back(Mixture(flat, Concat("expert_instances: ", count)));
  }
  texts.push_back(Mixture(Mixture(flat, "expert_instances: 9223372036854775807"),
                          "expert_instances: 9223372036854775807"));
  for (const std::string& text : texts) {
    const Clock::time_point begin = Clock::now();
    EXPECT_TRUE(Holds(ErrorOf([&] {
                        MakeNet(InputText("x", {4, 3}) + text, Runtime::Get().cpu(), TRAIN);
                      }),
                      "moe (MOE): has too many expert nets"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
  }
}

TEST(OddNetsTest, TheGateIsComparedWithTheNumberOfExperts) {
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(Holds(ErrorOf([&] {
                      MakeNet(InputText("x", {4, 3}) +
                                  Mixture(InnerProductText("y", "x", 3), "expert_instances: 16384"),
                              Runtime::Get().cpu(), TRAIN);
                    }),
                    "the gate has 4 outputs, but there are 16384 experts"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

// Extents whose product is 0 or overflows, and parameters at the limits of their types: an error,
// or a net that runs, within a second and without memory.
TEST(OddNetsTest, HugeParametersTakeNeitherMemoryNorTime) {
  const std::string layers[] = {
      "Convolution' convolution_param { num_output: 4294967295 kernel_size: 1 }",
      "Convolution' convolution_param { num_output: 1 kernel_size: 4294967295 }",
      "Convolution' convolution_param { num_output: 1 kernel_size: 1 pad: 4294967295 }",
      "Convolution' convolution_param { num_output: 1 kernel_size: 2 dilation: 4294967295 pad: "
      "4294967295 }",
      "Convolution' convolution_param { num_output: 4294967294 group: 2147483647 kernel_size: 1 }",
      "Deconvolution' convolution_param { num_output: 1 kernel_size: 1 stride: 4294967295 }",
      "Deconvolution' convolution_param { num_output: 4294967295 kernel_size: 3 }",
      "InnerProduct' inner_product_param { num_output: 4294967295 }",
      "Pooling' pooling_param { kernel_size: 4294967295 }",
      "Pooling' pooling_param { kernel_size: 2 stride: 4294967295 }",
      "Tile' tile_param { tiles: 2147483647 }",
      "LRN' lrn_param { local_size: 4294967295 }",
      "Interp' interp_param { zoom_factor: 2147483647 }",
      "Upsample' upsample_param { scale: 4294967295 }",
      "Embed' embed_param { num_output: 4294967295 input_dim: 4294967295 }",
      "Reshape' reshape_param { shape { dim: 9223372036854775807 dim: -1 } }",
      "Slice' slice_param { slice_point: 4294967295 } top: 'z'",
      "Reduction' reduction_param { axis: 2147483647 }",
      "ShuffleChannel' shuffle_channel_param { group: 4294967295 }",
      "ArgMax' argmax_param { top_k: 4294967295 }",
  };
  for (const std::string& layer : layers) {
    for (const Shape& shape : {Shape{2, 4, 6, 6}, Shape{0, 4, 1 << 20, 1 << 20}}) {
      const std::string text =
          InputText("x", shape) + "layer { name: 'odd' bottom: 'x' top: 'y' type: '" + layer + " }";
      SCOPED_TRACE(text);
      const Clock::time_point begin = Clock::now();
      const std::string error = ErrorOf([&] {
        const auto net = MakeNet(text, Runtime::Get().cpu(), TRAIN);
        net->Forward();
        net->Backward();
      });
      // Without items there is nothing to compute; a window that is wider than all channels is one.
      if (shape[0] > 0 && layer.find("LRN") == std::string::npos) {
        EXPECT_NE(error, "");
      }
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
    }
  }
}

// A window that is wider than the image sums what a window of the image's size does, as fast.
TEST(OddNetsTest, WindowsOfLrnEndWithTheImage) {
  for (const std::string region : {"ACROSS_CHANNELS", "WITHIN_CHANNEL"}) {
    const bool across = region == "ACROSS_CHANNELS";
    const auto values = [&](int64_t size) {
      const double window = static_cast<double>(size), alpha = across ? window : window * window;
      const auto net = MakeNet(
          InputText("x", {2, 4, 5, 3}) +
              Concat("layer { name: 'lrn' type: 'LRN' bottom: 'x' top: 'y' lrn_param { alpha: ",
                     alpha, " local_size: ", size, " norm_region: ", region, " } }"),
          Runtime::Get().cpu());
      FillInputs(net.get());
      net->Forward();
      return Values(*net, "y");
    };
    const std::vector<double> narrow = values(9), wide = values(4294967295);
    for (size_t i = 0; i < narrow.size(); ++i) EXPECT_NEAR(narrow[i], wide[i], 1e-5);
  }
}

TEST(OddNetsTest, RecurrentLayersHaveALimitOfTimeSteps) {
  for (const char* const type : {"LSTM", "GRU", "RNN"}) {
    for (const int64_t items : {0, 1}) {
      const std::string text =
          InputText("x", {2'000'000'000, items, 1}) + InputText("cont", {2'000'000'000, items}) +
          Concat("layer { name: 'cell' type: '", type, "' bottom: 'x' bottom: 'cont' top: 'y'",
                 " recurrent_param { num_output: 1 } }");
      EXPECT_TRUE(Holds(ErrorOf([&] { MakeNet(text, Runtime::Get().cpu()); }),
                        "(" + std::string(type) + "): x has 2000000000 time steps"));
    }
  }
}

TEST(OddNetsTest, ConstantDataIsComparedWithTheMemoryFirst) {
  const std::string text =
      "layer { name: 'dummy' type: 'DummyData' top: 'huge' dummy_data_param { shape { dim: 1048576 "
      "dim: 1048576 } } }";
  const auto net = MakeNet(text, Runtime::Get().cpu());
  EXPECT_GE(net->memory_needs().total(), int64_t{4} << 40);
  EXPECT_THROW(net->Forward(), OutOfMemory);
  EXPECT_TRUE(Holds(ErrorOf([&] { net->Forward(); }), "the net needs 4398046511104 bytes"));
  EXPECT_TRUE(Holds(ErrorOf([&] { net->BlobByName("huge")->DataAsDouble(); }), "huge"));
}

// No allocation of the C++ library fails without a name.
TEST(OddNetsTest, MissingMemoryNamesTheNet) {
  // A name of 8 MiB in each of 8 layers, in a process that may take 64 MiB more.
  const std::string name(8 << 20, 'n');
  NetParameter net;
  net.set_name("narrow");
  for (int i = 0; i < 8; ++i) {
    LayerParameter* const layer = net.add_layer();
    layer->set_name(name);
    layer->set_type("Input");
    layer->add_top(Concat("x", i));
  }
  EXPECT_EQ(InChild([&] {
              std::ifstream statm("/proc/self/statm");
              uint64_t pages = 0;
              statm >> pages;
              const rlim_t bytes = pages * 4096 + (64 << 20);
              const rlimit limit{bytes, bytes};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return 10;
              try {
                NetOptions options;
                options.device = Runtime::Get().cpu();
                Net made(net, options);
                return 1;
              } catch (const OutOfMemory& error) {
                return std::string(error.what()).find("out of memory") == std::string::npos ? 2 : 0;
              } catch (...) {
                return 3;
              }
            }),
            0);
}

NetParameter WithPython() {
  NetParameter net =
      ParseNet(InputText("x", {2, 3}) +
               "layer { name: 'own' type: 'Python' bottom: 'x' top: 'y' include { phase: TRAIN }"
               " python_param { module: 'os' layer: 'Evil' } }");
  return net;
}

TEST(OddNetsTest, PythonLayersAreRefusedWhereTheStateKeepsThem) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.python_layers = false;
  options.phase = TRAIN;
  const std::string wanted = "own (Python): runs class 'Evil' of module 'os'";
  EXPECT_TRUE(Holds(ErrorOf([&] { Net net(WithPython(), options); }), wanted));
  options.phase = TEST;
  EXPECT_EQ(ErrorOf([&] { Net net(WithPython(), options); }), "");
  EXPECT_EQ(ErrorOf([&] { RefusePythonLayersInTest(WithPython()); }), "");
  options.phase = TRAIN;
  for (const bool gate : {false, true}) {
    NetParameter outer =
        ParseNet(InputText("x", {2, 3}) + "layer { name: 'moe' type: 'MOE' bottom: 'x' top: 'y' }");
    MOEParameter* const mixture = outer.mutable_layer(1)->mutable_moe_param();
    *(gate ? mixture->mutable_gating_net() : mixture->add_expert_net()) = WithPython();
    EXPECT_TRUE(Holds(ErrorOf([&] { Net net(outer, options); }), wanted));
  }
  SolverParameter solver;
  solver.set_base_lr(0.1f);
  solver.set_lr_policy("fixed");
  *solver.mutable_net_param() = WithPython();
  EXPECT_TRUE(Holds(ErrorOf([&] { Solver made(solver, Runtime::Get().cpu(), false); }), wanted));
}

}  // namespace
}  // namespace caffe
