#include "commands/commands.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/solver/signal_handler.hpp"
#include "commands/self_test.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"
#include "tools/command_process.hpp"

namespace caffe {
namespace {

constexpr char kNet[] = R"(
  name: 'line'
  layer { name: 'in' type: 'Input' top: 'x' top: 'target'
          input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
          inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'target' top: 'loss' }
)";

class CommandsTest : public testing::Test {
 protected:
  void TearDown() override { Runtime::Get().SetDefaultDevice(nullptr); }

  int Run(const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CaffeMain(arguments);
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return status;
  }
  // Status 1 and one line on standard error, with `text` in it.
  void ExpectError(const std::vector<std::string>& arguments, const std::string& text) {
    EXPECT_EQ(1, Run(arguments));
    EXPECT_EQ("", out);
    EXPECT_EQ(1, std::count(err.begin(), err.end(), '\n')) << err;
    EXPECT_NE(std::string::npos, err.find(text)) << err;
  }
  static bool Holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  std::string Solver(const std::string& more) {
    folder.Put("net.prototxt", kNet);
    return folder.Put("solver.prototxt", "net: '" + (folder / "net.prototxt") +
                                             "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 "
                                             "display: 2 snapshot_prefix: '" +
                                             (folder / "s") + "' " + more);
  }

  TemporaryFolder folder;
  std::string out, err;
};

// A net with four classes whose labels are all `label`.
std::string LabelledNet(int label) {
  return Concat(
      "layer { name: 'in' type: 'DummyData' top: 'x' top: 'label' dummy_data_param { ",
      "shape { dim: 3 dim: 5 } shape { dim: 3 } data_filler { type: 'gaussian' } ",
      "data_filler { type: 'constant' value: ", label, " } } } ",
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { ",
      "num_output: 4 weight_filler { type: 'xavier' } } } ",
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'accuracy' ",
      "include { phase: TEST } } ",
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' } ");
}

TEST_F(CommandsTest, ALabelThatNamesNoClassEndsTrainAndTest) {
  const std::string what = "label 7 of item 0 is not one of 4 classes (0 to 3)";
  const std::string solver = Solver("snapshot_after_train: true");
  for (Device* device : TestDevices()) {
    const std::string gpu = "-gpu=" + device->info().id;
    folder.Put("net.prototxt", LabelledNet(3));
    ASSERT_EQ(0, Run({"train", "-solver", solver, gpu})) << err;
    folder.Put("net.prototxt", LabelledNet(7));
    EXPECT_EQ(1, Run({"train", "-solver", solver, gpu}));
    EXPECT_TRUE(Holds(err, "loss (SoftmaxWithLoss): " + what)) << err;
    EXPECT_EQ(1, Run({"test", "-model", folder / "net.prototxt", "-weights",
                      folder / "s_iter_4.caffemodel", "-iterations=2", gpu}));
    EXPECT_TRUE(Holds(err, "accuracy (Accuracy): " + what)) << err;
  }
}

TEST_F(CommandsTest, HelpIsNoError) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"--help"}, {"-h"}, {"help"}, {"help", "help"}}) {
    EXPECT_EQ(0, Run(arguments));
    EXPECT_TRUE(Holds(out, "usage: caffe <command>")) << out;
    EXPECT_TRUE(Holds(out, "\n  device_query    print the devices")) << out;
    EXPECT_TRUE(Holds(out, "\n  -log_dir VALUE ")) << out;
    EXPECT_FALSE(Holds(out, "-sighup_effect")) << "that is a flag of train: " << out;
    EXPECT_EQ("", err);
  }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-version"}, {"--version"}, {"version"}, {"-v"}}) {
    EXPECT_EQ(0, Run(arguments));
    EXPECT_EQ(0u, out.find("caffe version ")) << out;
    EXPECT_EQ("", err);
  }
}

TEST_F(CommandsTest, HelpOfEachCommandHasItsFlags) {
  const std::pair<const char*, std::vector<const char*>> commands[] = {
      {"train", {"-solver FILE", "-sigterm_effect", "-sighup_effect", "-gpu DEVICE", "130, 143"}},
      {"test", {"-model FILE", "-weights FILE", "-iterations N", "-json"}},
      {"time", {"-model FILE", "-phase PHASE", "-lt ", "-plan "}},
      {"tune", {"-model FILE", "-weights FILE", "-train ", "-gpu DEVICE", "-iterations N"}},
      {"transform",
       {"-passes LIST", "-out PREFIX", "-shape SHAPE", "-outputs LIST", "-seed N", "-levels N",
        "-libraries FILES"}},
      {"device_query", {"-self_test", "-gpu", "bfloat16"}},
      {"layers", {"[NAME...]", "-json"}},
      {"cache", {"--max-size", "verify"}}};
  for (const auto& [command, flags] : commands) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{command, "--help"}, {command, "-h"}, {"help", command}}) {
      EXPECT_EQ(0, Run(arguments));
      EXPECT_TRUE(Holds(out, Concat("usage: caffe ", command, " "))) << out;
      for (const char* flag : flags) EXPECT_TRUE(Holds(out, flag)) << flag << "\n" << out;
      EXPECT_EQ("", err);
    }
  }
  Run({"help", "layers"});
  EXPECT_FALSE(Holds(out, "-solver")) << out;
  ExpectError({"help", "tran"}, "did you mean train?");
}

TEST_F(CommandsTest, ErrorsAreOneLine) {
  ExpectError({"tarin"}, "Unknown action: tarin; did you mean train? (known: train test time ");
  ExpectError({"tran"}, "did you mean train?");
  ExpectError({"devicequery"}, "did you mean device_query?");
  ExpectError({"xyz"}, "Unknown action: xyz (known: ");
  ExpectError({"train"}, "Need a solver definition");
  ExpectError({"train", "-slover", "x"}, "did you mean --solver");
  ExpectError({"train", "-solver", "x", "extra"}, "unexpected argument 'extra'");
  ExpectError({"train", "-solver", "x", "-snapshot", "a", "-weights", "b"}, "not both");
  ExpectError({"train", "-solver", "/no/such/file"}, "/no/such/file");
  ExpectError({"test", "-model", "x"}, "Need model weights");
  ExpectError({"time"}, "Need a model definition");
  ExpectError({"time", "-model", folder.Put("bad", "layer { name: 'a'")}, "bad");
  ExpectError({"time", "-model", folder.Put("net", kNet), "-gpu", "99"}, "there is no device 99");
  ExpectError({"time", "-model", folder / "net", "-gpu", "0,1"}, "several devices");
  ExpectError({"time", "-model", folder / "net", "-gpu", "-"}, "there is no device '-'");
  ExpectError({"time", "-model", folder / "net", "-gpu", "0-1"}, "there is no device '0-1'");
  for (const char* count : {"0", "-3", "2.5", "many"}) {
    ExpectError({"time", "-model", folder / "net", Concat("-iterations=", count)},
                Concat("--iterations: '", count, "' is not a positive whole number"));
  }
  ExpectError({"layers", "Convlution"}, "Convlution");
  ExpectError({"layers", "-log_dir", "/no/such"}, "no log files can be written to /no/such");
  ExpectError({"layers", "-minloglevel", "7"}, "there is no level '7'; the levels are debug, info");
  ExpectError({"layers", "-v", "much"}, "v: 'much' is not a whole number");
  const std::string solver = Solver("");
  ExpectError({"train", "-solver", solver, "-snapshot", "/no/such.solverstate"},
              "/no/such.solverstate");
  folder.Put("net.prototxt", "layer { nom: 'a' }");
  ExpectError({"train", "-solver", solver}, "nom");
}

// The number before " MiB" that follows the word.
double MiBAfter(const std::string& text, const std::string& word) {
  const size_t at = text.find(word + " ");
  EXPECT_NE(at, std::string::npos) << word << "\n" << text;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + word.size()));
}

TEST_F(CommandsTest, TrainingStatesItsMemory) {
  ASSERT_EQ(0, Run({"train", "-solver", Solver("momentum: 0.9"), "-gpu", "cpu"})) << err;
  const size_t at = err.find("Memory needed: ");
  ASSERT_NE(at, std::string::npos) << err;
  const std::string line = err.substr(at, err.find('\n', at) - at);
  double sum = 0;
  for (const char* part :
       {"activations", "diffs", ", weights", "derived weights", "workspace", "history"}) {
    sum += MiBAfter(line, part);
  }
  EXPECT_GT(MiBAfter(line, "history"), 0);
  EXPECT_NEAR(MiBAfter(line, "total"), sum, 1e-3 * sum);
  EXPECT_GE(MiBAfter(err, "device peak"), MiBAfter(line, ", weights"));
}

TEST_F(CommandsTest, TrainsTestsAndResumes) {
  const std::string solver = Solver("snapshot: 2");
  ASSERT_EQ(0, Run({"train", "-solver", solver, "-gpu", "cpu"})) << err;
  for (const char* line : {"] Use CPU.", "] Starting Optimization", "] Solving line",
                           "] Iteration 2, lr = 0.1", "] Optimization Done."}) {
    EXPECT_TRUE(Holds(err, line)) << line << "\n" << err;
  }
  EXPECT_EQ("", out);
  EXPECT_FALSE(Holds(err, "\033")) << "control sequences in a file";

  ASSERT_EQ(0, Run({"train", "--solver=" + solver, "-gpu=cpu", "--snapshot",
                    folder / "s_iter_2.solverstate"}))
      << err;
  EXPECT_TRUE(Holds(err, "] Resuming from " + (folder / "s_iter_2.solverstate")));
  EXPECT_FALSE(Holds(err, "] Iteration 0"));
  EXPECT_TRUE(Holds(err, "] Iteration 4, loss = "));

  ASSERT_EQ(0, Run({"train", "--solver=" + solver, "-gpu=cpu", "--weights",
                    folder / "s_iter_4.caffemodel"}))
      << err;
  EXPECT_TRUE(Holds(err, "] Finetuning from " + (folder / "s_iter_4.caffemodel")));

  ASSERT_EQ(0, Run({"test", "-model", folder / "net.prototxt", "-weights",
                    folder / "s_iter_4.caffemodel", "-iterations", "3", "-gpu", "cpu"}))
      << err;
  EXPECT_TRUE(Holds(err, "] Running for 3 iterations."));
  EXPECT_TRUE(Holds(err, "] Batch 2, loss = 0"));
  EXPECT_TRUE(Holds(err, "] Loss: 0"));
  EXPECT_TRUE(Holds(err, "] loss = 0 (* 1 = 0 loss)"));
}

// Errors that say which file belongs to which option.
TEST_F(CommandsTest, SolverStatesAreNoWeights) {
  for (const std::string format : {"BINARYPROTO", "HDF5"}) {
    const std::string solver = Solver("snapshot_format: " + format);
    ASSERT_EQ(0, Run({"train", "-solver", solver, "-gpu", "cpu"})) << err;
    const std::string end = format == "HDF5" ? ".h5" : "";
    const std::string state = folder / ("s_iter_4.solverstate" + end);
    const std::string weights = folder / ("s_iter_4.caffemodel" + end);
    const std::string advice =
        state + " is a solver state (of iteration 4), not weights: resume " +
        "training from it with -snapshot (Python: solver.restore), or give " +
        "the weights that were written with it, " + weights;
    EXPECT_EQ(1, Run({"train", "-solver", solver, "-weights", state, "-gpu", "cpu"}));
    EXPECT_TRUE(Holds(err, advice)) << err;
    EXPECT_EQ(1, Run({"test", "-model", folder / "net.prototxt", "-weights", state, "-gpu=cpu"}));
    EXPECT_TRUE(Holds(err, advice)) << err;
    EXPECT_EQ(1, Run({"train", "-solver", solver, "-snapshot", weights, "-gpu", "cpu"}));
    EXPECT_TRUE(Holds(err, "not a solver state")) << err;
  }
}

// Once for every log level: as log lines, or as plain lines on standard output.
TEST_F(CommandsTest, ResultsArePrintedAtEveryLevel) {
  const std::string solver = Solver(""), net = folder / "net.prototxt";
  ASSERT_EQ(0, Run({"train", "-solver", solver, "-gpu", "cpu"})) << err;
  const std::vector<std::string> test = {
      "test", "-model",       net, "-weights", folder / "s_iter_4.caffemodel", "-gpu",
      "cpu",  "-iterations=2"};
  const std::vector<std::string> time = {"time", "-model", net, "-gpu", "cpu", "-iterations=2"};
  const std::pair<std::vector<std::string>, std::vector<std::string>> cases[] = {
      {test, {"Loss: 0", "loss = 0 (* 1 = 0 loss)"}},
      {time,
       {"Average time per layer: ", "        ip\tforward: ", "        ip\tbackward: ",
        "Average Forward pass: ", "Average Forward-Backward: ", "Total Time: ",
        "Images per second: ", "Memory: blobs "}}};
  const log::Level before = log::level();
  for (const auto& [arguments, lines] : cases) {
    for (const log::Level level : {log::Level::kInfo, log::Level::kWarning, log::Level::kOff}) {
      log::SetLevel(level);
      ASSERT_EQ(0, Run(arguments)) << err;
      const bool logged = level == log::Level::kInfo;
      for (const std::string& line : lines) {
        EXPECT_EQ(logged, Holds(err, "] " + line)) << line << "\n" << err;
        EXPECT_EQ(!logged, Holds("\n" + out, "\n" + line)) << line << "\n" << out;
      }
      if (logged) {
        EXPECT_EQ("", out);
      } else {
        EXPECT_EQ("", err);
      }
    }
    // JSON stays the only text on standard output.
    std::vector<std::string> with_json = arguments;
    with_json.push_back("--json");
    ASSERT_EQ(0, Run(with_json)) << err;
    EXPECT_EQ(0u, out.find("{\"model\": ")) << out;
    EXPECT_FALSE(Holds(out, "] ")) << out;
    EXPECT_FALSE(Holds(out, lines[0])) << out;
  }
  log::SetLevel(before);
}

TEST_F(CommandsTest, TestPrintsJson) {
  const std::string net = folder.Put(
      "net.prototxt",
      "name: 'two' layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
      "shape { dim: 2 dim: 3 } shape { dim: 2 dim: 3 } data_filler { type: 'constant' value: 1 } "
      "data_filler { type: 'constant' value: 3 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'z' inner_product_param { "
      "num_output: 1 } } "
      "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' top: 'l' loss_weight: 2 }");
  folder.Put("weights", "");
  NetParameter weights;
  weights.add_layer()->set_name("ip");
  for (const std::vector<int>& shape : {std::vector<int>{1, 3}, {1}}) {
    BlobProto* blob = weights.mutable_layer(0)->add_blobs();
    int count = 1;
    for (int extent : shape) {
      blob->mutable_shape()->add_dim(extent);
      count *= extent;
    }
    for (int i = 0; i < count; ++i) blob->add_data(count == 1 ? INFINITY : 1.f);
  }
  WriteBinaryProto(folder / "weights", weights);
  ASSERT_EQ(0, Run({"test", "-model", net, "-weights", folder / "weights", "-iterations=3",
                    "-gpu=cpu", "--json"}))
      << err;
  EXPECT_TRUE(Holds(out, Concat("{\"model\": \"", net, "\", \"net\": \"two\", \"weights\": ")));
  EXPECT_TRUE(Holds(out, "\"device\": \"cpu\"")) << out;
  EXPECT_TRUE(Holds(out, "\"iterations\": 3, \"batch\": 2,\n")) << out;
  // (1 - 3)^2 in each of 6 elements, over 2 N.
  EXPECT_TRUE(Holds(out, "\"loss\": 12, ")) << out;
  EXPECT_TRUE(Holds(out, "{\"name\": \"l\", \"element\": 0, \"mean\": 6, \"loss_weight\": 2}"))
      << out;
  EXPECT_TRUE(Holds(out, "{\"name\": \"z\", \"element\": 1, \"mean\": null, \"loss_weight\": 0}"))
      << "JSON has no infinity: " << out;
}

TEST_F(CommandsTest, EveryCommandTakesListsOfWeightsOfBothFormats) {
  NetParameter weights;
  LayerParameter* ip = weights.add_layer();
  ip->set_name("ip");
  BlobProto *matrix = ip->add_blobs(), *bias = ip->add_blobs();
  for (int extent : {2, 3}) matrix->mutable_shape()->add_dim(extent);
  for (int i = 0; i < 6; ++i) matrix->add_data(0);
  bias->mutable_shape()->add_dim(2);
  // The loss is the square of the bias.
  for (int i = 0; i < 2; ++i) bias->add_data(1);
  const std::string one = folder / "one.caffemodel", two = folder / "two.caffemodel.h5";
  WriteBinaryProto(one, weights);
  for (float& value : *bias->mutable_data()) value = 2;
  WriteNetHdf5(two, weights);
  const std::string solver = Solver("snapshot_after_train: false"), net = folder / "net.prototxt";
  for (const auto& [list, loss] : {std::pair<std::string, std::string>{one, "1"},
                                   {two, "4"},
                                   {one + "," + two, "4"},
                                   {two + ", " + one, "1"}}) {
    ASSERT_EQ(0, Run({"test", "-model", net, "-weights", list, "-iterations=1", "-gpu=cpu"}))
        << err;
    EXPECT_TRUE(Holds(err, "] Loss: " + loss + "\n")) << list << "\n" << err;
    ASSERT_EQ(0, Run({"time", "-model", net, "-weights", list, "-iterations=1", "-gpu=cpu"}))
        << err;
    EXPECT_TRUE(Holds(err, "] Initial loss: " + loss + "\n")) << list << "\n" << err;
    ASSERT_EQ(0, Run({"train", "-solver", solver, "-weights", list, "-gpu=cpu"})) << err;
    EXPECT_TRUE(Holds(err, "iters), loss = " + loss + "\n")) << list << "\n" << err;
  }
  EXPECT_EQ(1, Run({"test", "-model", net, "-weights", one + "," + solver, "-gpu=cpu"}));
  EXPECT_TRUE(Holds(err, solver + ": it is text")) << err;
}

TEST_F(CommandsTest, StrictRefusesWeightsThatAreMissingOrLeftOver) {
  NetParameter weights;
  ParseTextProto(
      "layer { name: 'ip2' blobs { shape { dim: 2 dim: 3 } data: [1, 1, 1, 1, 1, 1] } "
      "blobs { shape { dim: 2 } data: [1, 1] } }",
      "weights", &weights);
  const std::string file = folder / "with,comma=";
  WriteBinaryProto(file, weights);
  const std::string solver = Solver("snapshot_after_train: false"), net = folder / "net.prototxt";
  const std::vector<std::vector<std::string>> commands = {
      {"test", "-model", net, "-iterations=1"},
      {"time", "-model", net, "-iterations=1", "-nolt"},
      {"tune", "-model", net, "-iterations=1"},
      {"benchmark", "-models", net, "-types=float", "-iterations=1", "-out", folder / "b"},
      {"train", "-solver", solver}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"-weights", file});
    if (command[0] != "benchmark") command.push_back("-gpu=cpu");
    EXPECT_EQ(0, Run(command)) << command[0] << err;
    EXPECT_TRUE(Holds(err, "did you mean 'ip2'?")) << command[0] << err;
    command.push_back("-strict");
    EXPECT_EQ(1, Run(command)) << command[0];
    EXPECT_TRUE(Holds(err, "has no parameters for layer 'ip' (InnerProduct")) << err;
  }
  ExpectError({"time", "-model", net, "-strict"}, "-strict compares the files of -weights");
  ExpectError({"train", "-solver", solver, "-strict"}, "-strict compares weights with the net");
  LayerParameter* ip = weights.add_layer();
  *ip = weights.layer(0);
  ip->set_name("ip");
  WriteBinaryProto(file, weights);
  ExpectError({"transform", "-model", net, "-weights", file, "-strict", "-out", folder / "t"},
              "takes the parameters of 'ip2' of " + file);
}

TEST_F(CommandsTest, TrainGivesItsStagesToTestNets) {
  std::string net = kNet;
  const std::string ip = "bottom: 'x' top: 'y'";
  net.insert(net.find(ip), "include { stage: 'deep' } ");
  const std::string more = "snapshot_after_train: false test_iter: 1 test_interval: 1 ";
  for (const std::string states : {"", "test_state { stage: 'other' }"}) {
    const std::string solver = Solver(more + states);
    folder.Put("net.prototxt", net);
    EXPECT_EQ(0, Run({"train", "-solver", solver, "-stage", "deep", "-gpu=cpu"})) << err;
    EXPECT_TRUE(Holds(err, "Test net output #0: loss")) << err;
  }
}

TEST_F(CommandsTest, SolverModeChoosesTheDevice) {
  ASSERT_EQ(0, Run({"train", "-solver", Solver("solver_mode: CPU")})) << err;
  EXPECT_TRUE(Holds(err, "] Use CPU."));
  // Processors are no GPUs, even if a driver offers them.
  for (Device* device : Runtime::Get().devices()) {
    if (!device->info().is_cpu_type) return;
  }
  ASSERT_EQ(0, Run({"train", "-solver", Solver("solver_mode: GPU")})) << err;
  EXPECT_TRUE(Holds(err, "no GPU was found: using the CPU"));
  EXPECT_TRUE(Holds(err, "] Use CPU."));
  ExpectError({"train", "-solver", Solver(""), "-gpu", "all"}, "no GPU was found");
}

TEST_F(CommandsTest, TimePrintsCaffesLinesAndJson) {
  const std::string net = folder.Put("net.prototxt", kNet);
  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=3", "-gpu=cpu", "--json"})) << err;
  for (const char* line :
       {"] *** Benchmark begins ***", "] Testing for 3 iterations.",
        "] Iteration: 3 forward-backward time: ", "] Average time per layer: ",
        "]         ip\tforward: ", "]         ip\tbackward: ", "] Average Forward pass: ",
        "] Average Backward pass: ", "] Average Forward-Backward: ", "] Total Time: ",
        "] *** Benchmark ends ***"}) {
    EXPECT_TRUE(Holds(err, line)) << line << "\n" << err;
  }
  EXPECT_TRUE(Holds(out, "\"batch\": 4")) << out;
  EXPECT_TRUE(Holds(out, "{\"name\": \"ip\", \"type\": \"InnerProduct\"")) << out;
  EXPECT_TRUE(Holds(out, "\"parameter_bytes\": 32")) << out;

  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=2", "-gpu=cpu", "-phase=TEST", "-nolt"}));
  EXPECT_FALSE(Holds(err, "\tforward: "));
  EXPECT_FALSE(Holds(err, "Backward pass: "));
  EXPECT_EQ("", out);
}

TEST_F(CommandsTest, TimeShowsACompositeLayerOnceAndItsStepsInThePlan) {
  const std::string net = folder.Put(
      "lstm.prototxt",
      "layer { name: 'in' type: 'Input' top: 'x' top: 'cont' input_param { shape { dim: 3 dim: 2 "
      "        dim: 4 } shape { dim: 3 dim: 2 } } } "
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'h' recurrent_param { "
      "        num_output: 5 weight_filler { type: 'xavier' } } }");
  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=2", "-gpu=cpu"})) << err;
  EXPECT_TRUE(Holds(err, "]       lstm\tforward: ")) << err;
  EXPECT_TRUE(Holds(err, "]       lstm\tbackward: ")) << err;
  EXPECT_FALSE(Holds(err, "lstm\tforward: 0 ms.")) << err;
  EXPECT_FALSE(Holds(err, "unit_1\tforward")) << err;
  ASSERT_EQ(
      0, Run({"time", "-model", net, "-iterations=2", "-gpu=cpu", "-plan", "-nolt", "-phase=TEST"}))
      << err;
  EXPECT_TRUE(Holds(out + err, "lstm/unit_1")) << out << err;
}

// No library of the CPU measures algorithms.
TEST_F(CommandsTest, TuneSaysThatNothingIsMeasuredOnTheCpu) {
  const std::string net = folder.Put("net.prototxt", kNet);
  for (const bool train : {false, true}) {
    std::vector<std::string> arguments{"tune", "-model", net, "-gpu=cpu", "-iterations=2"};
    if (train) arguments.push_back("-train");
    ASSERT_EQ(0, Run(arguments)) << err;
    const std::string all = out + err;
    EXPECT_TRUE(Holds(all, "Steps of a forward in phase TEST, median times:")) << all;
    EXPECT_EQ(train, Holds(all, "Steps of a forward in phase TRAIN, median times:")) << all;
    EXPECT_TRUE(Holds(all,
                      "Nothing was measured: no library that computes this net on cpu has "
                      "several algorithms."))
        << all;
  }
  ExpectError({"tune"}, "tune: Need a model definition to tune");
}

// The columns of the lines of -plan, which two spaces or more separate; the header first.
std::vector<std::vector<std::string>> PlanRows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Average")) inside = false;
    if (inside) {
      rows.emplace_back();
      for (size_t at = 0; at < line.size();) {
        const size_t end = std::min(line.find("  ", at), line.size());
        rows.back().push_back(line.substr(at, end - at));
        at = std::min(line.find_first_not_of(' ', end), line.size());
      }
    }
    if (line.starts_with("Steps of a forward")) inside = true;
  }
  return rows;
}

TEST_F(CommandsTest, TimePrintsThePlan) {
  const std::string net = folder.Put(
      "net.prototxt", Concat(kNet, "layer { name: 'relu' type: 'ReLU' bottom: 'y' top: 'z' } ",
                             "layer { name: 'sum' type: 'Reduction' bottom: 'z' top: 'sum' }"));
  const log::Level before = log::level();
  log::SetLevel(log::Level::kWarning);  // lines without prefixes, on standard output
  for (const std::string phase : {"TEST", "TRAIN"}) {
    ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=3", "-gpu=cpu", "-plan", "-nolt",
                      "-phase=" + phase}))
        << err;
    const auto rows = PlanRows(out);
    std::vector<std::string> names;
    for (const auto& row : rows) {
      ASSERT_EQ(row.size(), 10u) << out;
      names.push_back(row[0]);
    }
    EXPECT_EQ(names, std::vector<std::string>(
                         {"step", "in", "ip", "y_ip_0_split", "loss", "relu", "sum", "total"}))
        << out;
    double time = 0;
    for (size_t i = 1; i + 1 < rows.size(); ++i) {
      EXPECT_EQ(rows[i][2], "float");
      EXPECT_EQ(rows[i][3], "NCHW");
      EXPECT_GE(std::stod(rows[i][7]), 0) << out;
      time += std::stod(rows[i][7]);
    }
    EXPECT_NEAR(std::stod(rows.back()[7]), time, 1e-3) << out;
    EXPECT_GT(time, 0) << out;
    EXPECT_EQ(rows[1][1], "-") << "an input is not computed: " << out;
    EXPECT_EQ(rows[2][6], "0.000") << "48 operations: " << out;
    EXPECT_EQ(rows[4][6], "-") << "the formula of a loss is not known: " << out;
    EXPECT_EQ(rows[5][1], "kernels") << out;
    // All lines have the same width.
    const size_t begin = out.find("\nstep ") + 1, width = out.find('\n', begin) - begin + 1;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(out[begin + (i + 1) * width - 1], '\n') << out;
    }
  }
  log::SetLevel(before);
}

// A step of several layers is one row, and the same in JSON.
TEST_F(CommandsTest, ThePlanOfTimeAsJson) {
  const std::string net = folder.Put(
      "net.prototxt",
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 64 dim: 256 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
      "        num_output: 512 weight_filler { type: 'xavier' } } } "
      "layer { name: 'relu' type: 'ReLU' bottom: 'y' top: 'y' }");
  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=4", "-gpu=cpu", "-plan", "-phase=TEST",
                    "--json"}))
      << err;
  EXPECT_TRUE(Holds(err, "] ip + relu  ")) << err;
  const size_t at = out.find("{\"layers\": [\"ip\", \"relu\"], \"library\": \"");
  ASSERT_NE(at, std::string::npos) << out;
  const std::string step = out.substr(at, out.find('}', at) - at);
  // 64 x 512 sums of 256 products, and as many activations.
  EXPECT_TRUE(Holds(step, Concat("\"operations\": ", 64 * 512 * (2 * 256 + 1), ","))) << step;
  EXPECT_TRUE(Holds(step, Concat("\"bytes\": ", 4 * (64 * 256 + 512 * 257 + 64 * 512), ",")))
      << step;
  const std::string key = "\"median_ms\": ";
  ASSERT_TRUE(Holds(step, key)) << step;
  EXPECT_GT(std::stod(step.substr(step.find(key) + key.size())), 0) << step;
  EXPECT_TRUE(Holds(out, "{\"layers\": [\"in\"], \"library\": null, ")) << out;
  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=1", "-gpu=cpu", "--json"})) << err;
  EXPECT_FALSE(Holds(out, "\"steps\""));
}

// Dropout has codes in phase TEST only, while the command's phase is TRAIN without a flag.
TEST_F(CommandsTest, TimeProposesThePhaseInWhichANetHasCodes) {
  const std::string codes = folder.Put(
      "codes.prototxt",
      "data_type: CAFFE_INT8_QUANTIZED "
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 8 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
      "        num_output: 4 weight_filler { type: 'xavier' } } } "
      "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'drop' } ");
  EXPECT_EQ(1, Run({"time", "-model", codes, "-iterations=1", "-gpu=cpu"}));
  EXPECT_TRUE(Holds(err, "drop (Dropout): quant8 blobs pass through in the TEST phase only"))
      << err;
  EXPECT_TRUE(Holds(err, "give -phase TEST")) << err;
  ASSERT_EQ(0, Run({"time", "-model", codes, "-iterations=1", "-gpu=cpu", "-phase=TEST"})) << err;
  // Errors that phase TEST has, too.
  EXPECT_EQ(1, Run({"time", "-model", codes, "-weights", folder / "none", "-gpu=cpu"}));
  EXPECT_FALSE(Holds(err, "give -phase TEST")) << err;
}

// Without a loss no layer needs backward; as in BVLC's Caffe it is timed nevertheless.
TEST_F(CommandsTest, TimeRunsADeployNetBackward) {
  const std::string net = folder.Put(
      "net.prototxt",
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 dim: 4 dim: 5 "
      "        dim: 6 } } } "
      "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'y' convolution_param { "
      "        num_output: 2 kernel_size: 3 weight_filler { type: 'xavier' } } }");
  ASSERT_EQ(0, Run({"time", "-model", net, "-iterations=2", "-gpu=cpu", "--json"})) << err;
  EXPECT_TRUE(Holds(err, "] The net has no loss: the backward passes of all layers are")) << err;
  EXPECT_TRUE(Holds(err, "] conv needs backward computation."));
  EXPECT_FALSE(Holds(err, "      conv\tbackward: 0 ms.")) << err;
  EXPECT_TRUE(Holds(out, "\"batch\": 3")) << "of five axes: " << out;
  EXPECT_TRUE(Holds(err, "] Images per second: "));
  ASSERT_EQ(
      0, Run({"time", "-model", folder.Put("loss.prototxt", kNet), "-iterations=1", "-gpu=cpu"}));
  EXPECT_FALSE(Holds(err, "has no loss"));
}

TEST_F(CommandsTest, DeviceQueryListsWhatIsThere) {
  ASSERT_EQ(0, Run({"device_query"}));
  EXPECT_TRUE(Holds(out, "Device -1: cpu")) << out;
  EXPECT_TRUE(Holds(out, "Program cache: ")) << out;
  for (Device* device : Runtime::Get().devices()) EXPECT_TRUE(Holds(out, device->info().id));
  ASSERT_EQ(0, Run({"device_query", "-gpu", "cpu", "--json"}));
  EXPECT_TRUE(Holds(out, "\"index\": -1, \"id\": \"cpu\"")) << out;
  EXPECT_FALSE(Holds(out, "opencl:0")) << out;
  ExpectError({"device_query", "-gpu", "77"}, "there is no device 77");
}

// /dev/full behaves like a file on a full disk.
TEST_F(CommandsTest, LostOutputIsAnError) {
  for (const std::string& command :
       {std::string("caffe layers"), std::string("caffe layers --json"), std::string("caffe help"),
        std::string("caffe device_query -gpu cpu --json"), std::string("caffe version"),
        std::string("caffe cache --help"), std::string("compute_image_mean --version")}) {
    const std::string line = Concat("CAFFE_LOG=off ", CAFFE_BINARY_DIR, "/tools/", command,
                                    " >/dev/full 2>'", folder / "log", "'");
    EXPECT_NE(std::system(line.c_str()), 0) << line;
    const std::string log = folder.Get("log");
    EXPECT_TRUE(Holds(log, "cannot write to standard output: No space left on device"))
        << line << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  }
}

TEST_F(CommandsTest, DeviceQuerySaysThatTheCacheCannotBeWritten) {
  folder.Put("file", "");
  const ScopedVariable directory("CAFFE_CACHE_DIR", folder / "file");
  CommandProcess query({"device_query", "-gpu", "cpu"}, folder / "log");
  ASSERT_EQ(0, query.Wait());
  const std::string log = folder.Get("log");
  EXPECT_FALSE(Holds(log, "read-write")) << log;
  EXPECT_TRUE(Holds(log, "programs.db (off), 0 programs, 0.0 KiB: ")) << log;
}

TEST_F(CommandsTest, SelfTestHasARowForEachFamilyAndType) {
  ASSERT_EQ(0, Run({"device_query", "--self-test", "-gpu", "cpu"})) << out << err;
  const size_t families = SelfTestFamilies().size();
  EXPECT_GE(families, 43u);
  // A head, four float kinds, the quantized rows, a sum.
  EXPECT_GT(static_cast<size_t>(std::count(out.begin(), out.end(), '\n')), 4 * families + 2);
  for (const std::string& family : SelfTestFamilies()) EXPECT_TRUE(Holds(out, family)) << family;
  EXPECT_TRUE(Holds(out, "quant16")) << out;
  EXPECT_FALSE(Holds(out, "FAIL")) << out;
  ASSERT_EQ(0, Run({"device_query", "--self-test", "float", "--json", "-gpu", "cpu"}));
  EXPECT_TRUE(Holds(out, "\"failed\": 0")) << out;
  // The names of the kernels, by device.
  EXPECT_TRUE(Holds(out, "\"kernels\": {\n  \"cpu\": [\"")) << out;
  EXPECT_TRUE(Holds(out, "\"relu_forward\", \"relu_forward_slope\"")) << out;
}

// A new layer needs a family, or an entry here with the reason why it has no family.
TEST_F(CommandsTest, SelfTestCoversEveryLayer) {
  const std::map<std::string, std::string> without{
      {"Data", "reads on the host"},
      {"HDF5Data", "reads on the host"},
      {"HDF5Output", "writes on the host"},
      {"ImageData", "reads on the host"},
      {"MemoryData", "copies from the host"},
      {"CarriedState", "is a part of LSTM, RNN and GRU"},
      {"StoredState", "is a part of LSTM, RNN and GRU"},
      {"GroupedConvolution", "is a part of MOE"},
      {"GroupedInnerProduct", "is a part of MOE"},
      {"LSTMSteps", "is a part of LSTM"},
      {"LSTMUnit", "is a part of LSTM"},
      {"GRUUnit", "is a part of GRU"},
      {"Flatten", "shares its bottom"},
      {"Reshape", "shares its bottom"},
      {"Silence", "has no top"},
      {"Split", "is inserted where a blob is read twice"},
      {"ConvolutionDepthwise", "is another name of DepthwiseConvolution"},
      {"Quantizer", "is inserted between types"},
      {"Parameter", "has no bottom"},
      {"Python", "runs Python"}};
  const std::set<std::string> covered = SelfTestLayers();
  for (const std::string& type : LayerRegistry::Get().Names()) {
    EXPECT_NE(covered.count(type), without.count(type)) << type;
  }
  for (const auto& [type, reason] : without) {
    EXPECT_TRUE(LayerRegistry::Get().Has(type) || type == "Python") << type << " " << reason;
  }
}

// A device whose kernel is wrong: its text is read from a folder where ReLU doubles.
TEST_F(CommandsTest, SelfTestFindsAWrongKernel) {
  if (Runtime::Get().devices().empty()) GTEST_SKIP() << "there is no device beside the CPU";
  const std::filesystem::path kernels = folder.path() / "kernels";
  std::filesystem::copy(CAFFE_SOURCE_DIR "/kernels", kernels,
                        std::filesystem::copy_options::recursive);
  std::ifstream in(kernels / "neuron/relu.h");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string right = "leaky_value(v, rescale, slope)";
  const size_t at = text.find(right);
  ASSERT_NE(at, text.npos);
  text.replace(at, right.size(), "2 + " + right);
  std::ofstream(kernels / "neuron/relu.h") << text;
  // In a process of its own: texts are read once.
  const std::string command =
      Concat("CAFFE_LOG=error CAFFE_KERNELS='", kernels.string(), "' ", CAFFE_BINARY_DIR,
             "/tools/caffe device_query --self-test float quant8 --json -gpu ",
             Runtime::Get().devices().back()->info().id, " >", folder / "rows", " 2>&1");
  EXPECT_NE(0, std::system(command.c_str()));
  const std::string rows = folder.Get("rows");
  for (const char* type : {"float", "quant8"}) {
    EXPECT_TRUE(Holds(rows, Concat("\"type\": \"", type,
                                   "\", \"family\": \"ReLU\", \"passed\": false, \"message\": "
                                   "\"y, element")))
        << rows;
  }
  EXPECT_TRUE(Holds(rows, "\"family\": \"PReLU\", \"passed\": true")) << rows;
}

TEST_F(CommandsTest, TransformWritesAModelThatComputesTheSame) {
  const std::string solver = Solver("");
  ASSERT_EQ(0, Run({"train", "-solver", solver, "-gpu=cpu"})) << err;
  const std::string net = folder / "net.prototxt", weights = folder / "s_iter_4.caffemodel";
  ASSERT_EQ(0, Run({"transform", "-model", net, "-weights", weights, "-passes", "strip,round",
                    "-type=bfloat16", "-out", folder / "t", "-gpu=cpu"}))
      << err;
  EXPECT_TRUE(Holds(out, "strip: loss (EuclideanLoss) is removed")) << out;
  EXPECT_TRUE(Holds(out, "round: 1 parameter is stored as bfloat16\n")) << out;
  EXPECT_TRUE(Holds(out, "\nstrip                    3       2")) << out;
  const NetParameter written = ReadNetParameterBinary(folder / "t.caffemodel");
  EXPECT_EQ(written.layer(1).blobs(0).data_type(), CAFFE_BFLOAT16);
  EXPECT_EQ(ReadNetParameter(folder / "t.prototxt").layer(1).blobs_size(), 0);
  // Files that were written can be transformed again; -json prints the same facts.
  ASSERT_EQ(0, Run({"transform", "-model", folder / "t.prototxt", "-weights",
                    folder / "t.caffemodel", "-out", folder / "u", "-gpu=cpu", "-json"}))
      << err;
  EXPECT_TRUE(Holds(out, "\"name\": \"casts\", \"layers_before\": 2, \"layers_after\": 2")) << out;
  EXPECT_TRUE(Holds(out, "{\"blob\": \"y\", \"count\": 8, \"items\": 4,")) << out;
  EXPECT_TRUE(Holds(out, "\"relative\": 0, \"cosine\": 1, \"same_argmax\": 4}")) << out;

  // Few levels, and a pass of a library (tests/transform/library/own_passes.cpp).
  const std::string library = CAFFE_BINARY_DIR "/tests/libtest_own_passes.so";
  ASSERT_EQ(
      0, Run({"transform", "-model", net, "-weights", weights, "-passes", "no_sigmoid,round_levels",
              "-levels", "3", "-libraries", library, "-out", folder / "w", "-gpu=cpu"}))
      << err;
  EXPECT_TRUE(Holds(out, "round_levels: 1 parameter has at most 3 different values\n")) << out;
  EXPECT_TRUE(Holds(out, "\nno_sigmoid ")) << out;

  ExpectError({"transform"}, "Need a model: -model FILE");
  ExpectError({"transform", "-model", net}, "Need the weights of the model");
  ExpectError({"transform", "-model", net, "-weights", weights}, "-out PREFIX");
  const auto error = [&](const std::string& flag, const std::string& text) {
    ExpectError({"transform", "-model", net, "-weights", weights, "-out", folder / "v", flag},
                text);
  };
  error("-libraries=none.so", "cannot open the library of passes none.so: no such file");
  error("-levels=0", "'0' is not a positive whole number");
  error("-levels=5", "levels are for the pass round_levels");
  error("-passes=fuld", "unknown pass 'fuld'; did you mean fold? (known: strip fold constants ");
  error("-shape=1,x", "-shape has 'x'");
  error("-type=half", "neither is named");
  error("-model=/none", "File not found: /none");
  error("-weights=/none", "File not found: /none");
  error("-out=/none/x", "cannot write /none/x.caffemodel");
  EXPECT_FALSE(std::filesystem::exists(folder / "v.prototxt"));
}

TEST_F(CommandsTest, LayersPrintsTheCatalogue) {
  ASSERT_EQ(0, Run({"layers"}));
  EXPECT_TRUE(Holds(out, "InnerProduct")) << out;
  ASSERT_EQ(0, Run({"layers", "ReLU", "--json"}));
  EXPECT_TRUE(Holds(out,
                    "{\"name\": \"ReLU\", \"bottoms\": \"1\", \"tops\": \"1\", "
                    "\"in_place\": true"))
      << out;
  EXPECT_FALSE(Holds(out, "InnerProduct")) << out;
  // Data sources have no backward pass, whatever flags are given.
  ASSERT_EQ(0, Run({"layers", "Data", "Input", "MemoryData", "InnerProduct", "Accuracy"}));
  for (const char* row : {"Data                 0        1-2    no        source    ",
                          "Input                0        1+     no        source    ",
                          "InnerProduct         1        1      no        yes       ",
                          "Accuracy             2        1-2    no        no        "}) {
    EXPECT_TRUE(Holds(out, row)) << row << "\n" << out;
  }
  ASSERT_EQ(0, Run({"layers", "Data", "--json"}));
  EXPECT_TRUE(Holds(out, "\"backward\": false, \"source\": true")) << out;
}

TEST(JsonTest, Escapes) { EXPECT_EQ("\"a\\\"b\\\\c\\u000a\"", JsonString("a\"b\\c\n")); }

TEST(SignalHandlerTest, TurnsSignalsIntoActions) {
  SignalHandler handler(SolverAction::kStop, SolverAction::kSnapshot, SolverAction::kSnapshot);
  EXPECT_EQ(SolverAction::kNone, handler.Poll());
  std::raise(SIGHUP);
  EXPECT_EQ(SolverAction::kSnapshot, handler.Poll());
  EXPECT_EQ(SolverAction::kNone, handler.Poll());
  std::raise(SIGTERM);
  EXPECT_EQ(SolverAction::kSnapshot, handler.Poll());
  EXPECT_EQ(0, handler.stopped_by());
  testing::internal::CaptureStderr();
  std::raise(SIGINT);
  EXPECT_EQ(SolverAction::kStop, handler.Poll());
  EXPECT_EQ(SIGINT, handler.stopped_by());
  EXPECT_EQ(
      "SIGINT: stopping after this iteration. Another one ends at once, without a snapshot.\n",
      testing::internal::GetCapturedStderr());
  EXPECT_THROW(SignalHandler(SolverAction::kStop, SolverAction::kNone), Error);
}

TEST(SignalHandlerTest, SigtermStopsAndMayComeAgain) {
  SignalHandler handler(SolverAction::kStop, SolverAction::kSnapshot);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) std::raise(SIGTERM);
  EXPECT_EQ(SolverAction::kStop, handler.Poll());
  std::raise(SIGTERM);
  EXPECT_EQ(SIGTERM, handler.stopped_by());
  EXPECT_EQ("SIGTERM: stopping after this iteration.\n", testing::internal::GetCapturedStderr());
}

}  // namespace
}  // namespace caffe
