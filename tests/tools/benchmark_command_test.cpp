// caffe benchmark: its cells, its files, cells that fail, Ctrl-C, and the tables of the thesis.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "command_process.hpp"
#include "commands/benchmark_report.hpp"
#include "commands/commands.hpp"
#include "commands/thesis_tables.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

std::string Model(const std::string& name, const std::string& more = "") {
  return "name: '" + name + R"('
    layer { name: 'data' type: 'Input' top: 'data'
            input_param { shape { dim: 3 dim: 4 dim: 9 dim: 9 } } }
    layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
            convolution_param { num_output: 32 kernel_size: 3 weight_filler { type: 'xavier' } } }
    layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
    layer { name: 'score' type: 'InnerProduct' bottom: 'conv' top: 'score'
            inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }
    layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' }
  )" + more;
}

class BenchmarkCommandTest : public testing::Test {
 protected:
  BenchmarkCommandTest() : model_(folder_.Put("tiny.prototxt", Model("Tiny"))) {}

  int Run(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"benchmark"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CaffeMain(arguments);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  // The cells of a run on the CPU with one sample each.
  BenchmarkRun Cells(std::vector<std::string> more) {
    for (const char* word : {"-devices", "cpu", "-iterations", "1", "-seconds", "0.01", "-out"}) {
      more.insert(more.begin(), word);
    }
    // The words were inserted from the last one on.
    std::reverse(more.begin(), more.begin() + 7);
    more.insert(more.begin() + 7, Prefix());
    EXPECT_EQ(0, Run(more)) << err_;
    BenchmarkRun run;
    ReadBenchmarkJson(Prefix() + ".json", &run);
    return run;
  }
  std::string Prefix() const { return folder_ / "result"; }
  bool Printed(const std::string& text) const { return out_.find(text) != std::string::npos; }
  void ExpectError(const std::vector<std::string>& more, const std::string& text) {
    EXPECT_EQ(1, Run(more));
    EXPECT_EQ("", out_);
    EXPECT_NE(std::string::npos, err_.find(text)) << err_;
  }

  TemporaryFolder folder_;
  std::string model_, out_, err_;
};

TEST_F(BenchmarkCommandTest, MeasuresEveryCombination) {
  const BenchmarkRun run =
      Cells({"-models", model_, "-types", "float,half,bfloat16,int16,int8", "-batches", "1,8"});
  ASSERT_EQ(10u, run.cells.size()) << err_;
  const char* types[] = {"float", "half", "bfloat16", "int16", "int8"};
  for (size_t i = 0; i < run.cells.size(); ++i) {
    const BenchmarkCell& cell = run.cells[i];
    EXPECT_EQ("tiny", cell.net);
    EXPECT_EQ("Tiny", cell.name);
    EXPECT_EQ(types[i % 5], cell.type);
    EXPECT_EQ(i < 5 ? 1 : 8, cell.batch);
    EXPECT_EQ("", cell.error);
    EXPECT_GT(cell.milliseconds, 0);
    EXPECT_LE(cell.fastest, cell.milliseconds);
    EXPECT_EQ(i % 5 > 2, cell.random_ranges);
    // The prediction is that of Net; the allocator rounds each array up.
    ASSERT_TRUE(cell.memory && cell.predicted);
    EXPECT_GE(*cell.memory, *cell.predicted);
    EXPECT_LE(*cell.memory, *cell.predicted + 64 * 1024);
    EXPECT_FALSE(cell.plain_memory);
  }
  EXPECT_GT(*run.cells[5].memory, *run.cells[0].memory);
  // 32 x 36 + 32 + 40 x 1568 + 40 parameters.
  const double parameters = 63944;
  const double bytes[] = {4, 2, 2, 2, 1};
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(run.cells[i].storage);
    EXPECT_NEAR(1, static_cast<double>(*run.cells[i].storage) / (bytes[i] * parameters), 0.05)
        << types[i];
    // Weights of their own type have no copy in float. For 16 bits the CPU packs words of more rows
    // than this layer has.
    if (i > 0 && i != 3) EXPECT_LT(*run.cells[i].memory, 4 * parameters) << types[i];
  }
  EXPECT_TRUE(Printed("ranges that were observed on random inputs"));
  EXPECT_TRUE(Printed("| tiny | cpu | 8 | int16 |"));
  EXPECT_FALSE(Printed("thesis"));
}

TEST_F(BenchmarkCommandTest, PlainMemoryIsThatWithoutReuse) {
  // The plan holds two of four blobs of one size at a time.
  std::string chain;
  std::string bottom = "data";
  for (const char* name : {"a", "b", "c", "d"}) {
    chain += std::string("layer { name: '") + name + "' type: 'Pooling' bottom: '" + bottom +
             "' top: '" + name + "' pooling_param { pool: MAX kernel_size: 3 stride: 1 pad: 1 } } ";
    bottom = name;
  }
  const std::string path = folder_.Put(
      "chain.prototxt",
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 16 dim: 64 "
      "dim: 64 } } } " +
          chain);
  const BenchmarkRun run = Cells({"-models", path, "-types", "float", "-plain"});
  ASSERT_EQ(1u, run.cells.size());
  ASSERT_TRUE(run.cells[0].plain_memory) << run.cells[0].error;
  const int64_t blob = 16 * 64 * 64 * 4;
  EXPECT_GE(*run.cells[0].plain_memory, *run.cells[0].memory + blob);
  EXPECT_GE(*run.cells[0].plain_memory, 5 * blob);
}

TEST_F(BenchmarkCommandTest, ACellThatFailsHasItsReasonAndTheOthersAreMeasured) {
  const BenchmarkRun run = Cells({"-models", model_, "-types", "int8,float", "-phase", "TRAIN"});
  ASSERT_EQ(2u, run.cells.size());
  EXPECT_EQ(0, run.cells[0].milliseconds);
  EXPECT_NE("", run.cells[0].error);
  EXPECT_TRUE(run.cells[1].train);
  EXPECT_GT(run.cells[1].milliseconds, 0) << run.cells[1].error;
  EXPECT_TRUE(Printed("What was not measured:\n\n* " + run.cells[0].error));
  ASSERT_EQ(0, Run({"-models", model_, "-types", "float", "-devices", "cuda:77,cpu", "-iterations",
                    "1", "-seconds", "0.01"}));
  EXPECT_TRUE(Printed("| tiny | cuda:77 | 1 | float | failed |")) << out_;
  EXPECT_TRUE(Printed("there is no device 'cuda:77'")) << out_;
  EXPECT_TRUE(Printed("| tiny | cpu | 1 | float | ")) << out_;
  EXPECT_FALSE(Printed("| tiny | cpu | 1 | float | failed |")) << out_;
}

TEST_F(BenchmarkCommandTest, TooLargeABatchDoesNotStopTheOthers) {
  const std::string path = folder_.Put(
      "large.prototxt",
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1024 dim: "
      "1024 dim: 16 } } } layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'pool' "
      "pooling_param { pool: MAX kernel_size: 2 stride: 2 } }");
  // 64 TiB of float.
  const BenchmarkRun run = Cells({"-models", path, "-types", "float", "-batches", "1048576,1"});
  ASSERT_EQ(2u, run.cells.size());
  EXPECT_NE("", run.cells[0].error);
  EXPECT_GT(run.cells[1].milliseconds, 0) << run.cells[1].error;
}

TEST_F(BenchmarkCommandTest, RangesOfWeightsReplaceThoseOfRandomInputs) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.seed = 5;
  Net net(model_, options);
  net.set_observe(true);
  net.Forward();
  NetParameter trained;
  net.ToProto(&trained);
  ASSERT_GT(trained.quantizer_size(), 0);
  WriteBinaryProto(folder_ / "w.caffemodel", trained);
  const BenchmarkRun run =
      Cells({"-models", model_, "-types", "int8", "-weights", folder_ / "w.caffemodel"});
  ASSERT_EQ(1u, run.cells.size());
  EXPECT_FALSE(run.cells[0].random_ranges);
  EXPECT_FALSE(Printed("random inputs"));
}

TEST_F(BenchmarkCommandTest, FilesOfEarlierRunsAndAccuraciesAreMerged) {
  folder_.Put("other.json",
              R"({"cells": [{"net": "tiny", "name": "Tiny", "framework": "PyTorch 2",
                  "type": "float", "device": "cpu", "batch": 1, "milliseconds": 0.001}]})");
  folder_.Put("quantized.json", R"({"net": "Tiny", "type": "quant8", "float_top1": 98.5,
                                    "quantized_top1": 98.25, "agreement": 99.5})");
  const BenchmarkRun run = Cells({"-models", model_, "-types", "float,int8", "-merge",
                                  folder_ / "other.json", "-accuracy", folder_ / "quantized.json"});
  ASSERT_EQ(3u, run.cells.size());
  EXPECT_EQ("PyTorch 2", run.cells[0].framework);
  EXPECT_EQ(1e6, run.cells[0].images_per_second());
  EXPECT_FALSE(run.cells[0].memory);
  ASSERT_EQ(2u, run.accuracies.size());
  EXPECT_EQ("int8", run.accuracies[1].type);
  EXPECT_TRUE(Printed("| PyTorch 2 | float | 0.001 | 1000000 |")) << out_;
  EXPECT_TRUE(Printed("| 98.50 % | - |\n")) << out_;
  EXPECT_TRUE(Printed("| 98.25 % | 99.50 % |\n")) << out_;
  // An input is not replaced.
  EXPECT_EQ(1, Run({"-merge", Prefix() + ".json", "-out", Prefix()}));
  EXPECT_NE(std::string::npos, err_.find("would replace the input " + Prefix() + ".json")) << err_;
  // The files alone make the same report again.
  ASSERT_EQ(0, Run({"-merge", Prefix() + ".json", "--json"}));
  folder_.Put("again.json", out_);
  BenchmarkRun again;
  ReadBenchmarkJson(folder_ / "again.json", &again);
  again.date = run.date;
  again.version = run.version;
  again.host = run.host;
  EXPECT_EQ(BenchmarkJson(run), BenchmarkJson(again));
}

TEST_F(BenchmarkCommandTest, TheReportSaysWhereInt8IsNotTheFastest) {
  BenchmarkRun run;
  BenchmarkCell cell;
  cell.net = "a";
  cell.framework = "Cortado";
  cell.device = "cpu";
  cell.batch = 2;
  const auto add = [&](const char* net, const char* type, double milliseconds) {
    cell.net = net;
    cell.type = type;
    cell.milliseconds = milliseconds;
    run.cells.push_back(cell);
  };
  add("a", "float", 4);
  add("a", "int8", 1);
  EXPECT_NE(std::string::npos,
            BenchmarkMarkdown(run, "").find("INT8 is the fastest type in all 1 cases."));
  add("b", "half", 3);
  add("b", "int8", 5);
  const std::string text = BenchmarkMarkdown(run, "");
  EXPECT_NE(std::string::npos, text.find("INT8 is the fastest type in 1 cases.")) << text;
  EXPECT_NE(std::string::npos, text.find("* b on cpu, batch 2: half takes 3.000 ms, int8 5.000 ms"))
      << text;
  EXPECT_NE(std::string::npos, text.find("| a | cpu | 2 | int8 | 1.000 | 2000 | 0.25 |")) << text;
  const std::string svg = BenchmarkSvg(run);
  EXPECT_NE(std::string::npos, svg.find(">images/s: cpu, batch 2<")) << svg;
  for (const char* bar : {">500<", ">2000<", ">667<", ">400<"}) {
    EXPECT_NE(std::string::npos, svg.find(bar)) << bar << svg;
  }
}

TEST_F(BenchmarkCommandTest, TablesOfTheThesisHaveOurColumns) {
  BenchmarkRun run;
  for (const char* net : {"caffenet", "caffenet_moe"}) {
    for (const char* type : {"float", "int8"}) {
      BenchmarkCell cell;
      cell.net = net;
      cell.type = type;
      cell.device = "cuda:0";
      cell.device_name = "NVIDIA H200";
      cell.batch = 512;
      cell.milliseconds = type == std::string("int8") ? 12.25 : 34.5;
      cell.memory = int64_t{1000} << 20;
      cell.plain_memory = int64_t{3000} << 20;
      cell.storage = 61000000;
      run.cells.push_back(cell);
    }
  }
  const std::string text = ThesisTables(run);
  EXPECT_NE(std::string::npos, text.find("| INT8 | 61.0 | 61.0 | 77.5 | 61.0 |")) << text;
  EXPECT_NE(std::string::npos, text.find("| thesis, OpenCL | FP32 | 3275 | 2047 | 6211 | 3449 |"))
      << text;
  EXPECT_NE(std::string::npos, text.find("| cuda:0 (Cortado), batch 512 | FP32 | 3000.0 | 1000.0 "
                                         "| 3000.0 | 1000.0 |"))
      << text;
  EXPECT_NE(std::string::npos,
            text.find("| nVidia GTX 1080 (thesis) | CUDA | 512 | 510 | 22333 | 2350 | 565 |"))
      << text;
  EXPECT_NE(std::string::npos,
            text.find("| NVIDIA H200 (Cortado) | cuda:0 | 512 | 34.5 | - | - | 12.25 |"))
      << text;
  run.cells.resize(2);
  EXPECT_EQ(std::string::npos, ThesisTables(run).find("Table 4.5"));
}

TEST_F(BenchmarkCommandTest, AnInterruptWritesWhatThereIs) {
  std::string batches = "1";
  for (int i = 2; i < 200; ++i) batches += "," + std::to_string(i);
  const std::string log = folder_ / "log";
  CommandProcess process({"benchmark", "-models", model_, "-types", "float", "-devices", "cpu",
                          "-batches", batches, "-seconds", "0.2", "-out", Prefix()},
                         log);
  for (int i = 0; i < 3000 && !std::filesystem::exists(Prefix() + ".md"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(std::filesystem::exists(Prefix() + ".md"));
  process.Send(SIGINT);
  EXPECT_EQ(128 + SIGINT, process.Wait());
  BenchmarkRun run;
  ReadBenchmarkJson(Prefix() + ".json", &run);
  EXPECT_GE(run.cells.size(), 1u);
  EXPECT_LT(run.cells.size(), 100u);
  EXPECT_GT(run.cells[0].milliseconds, 0);
  EXPECT_NE(std::string::npos, ReadFile(Prefix() + ".md").find("The run was interrupted"));
}

TEST_F(BenchmarkCommandTest, Errors) {
  ExpectError({}, "-models lenet,net.prototxt");
  ExpectError({"-models", "nothing"}, "no model 'nothing'");
  ExpectError({"-models", model_, "-types", "int4"}, "int4");
  ExpectError({"-models", model_, "-batches", "1,0"}, "'0' is not a positive whole number");
  ExpectError({"-models", model_ + "," + model_, "-weights", "w"}, "-weights needs one model");
  ExpectError({"-merge", folder_.Put("bad.json", "{")}, "invalid JSON");
  ExpectError(
      {"-merge", folder_.Put("large.json",
                             "{\"cells\": [{\"net\": \"n\", \"framework\": \"f\", \"type\": "
                             "\"float\", \"device\": \"cpu\", \"batch\": 1e300}]}")},
      "batch is 1e+300; it must be between 0 and");
  // A chart would have a line for each of infinitely many powers of ten.
  ExpectError(
      {"-merge", folder_.Put("none.json",
                             "{\"cells\": [{\"net\": \"n\", \"framework\": \"f\", \"type\": "
                             "\"float\", \"device\": \"cpu\", \"milliseconds\": 1}]}")},
      "1 milliseconds for a batch of 0, which cannot be");
  ExpectError({"-merge", folder_.Put("empty.json", "{}")}, "not a file of caffe benchmark");
  ExpectError({"-models", model_, "-accuracy", folder_ / "empty.json"},
              "not a report of caffe quantize");
}

}  // namespace
}  // namespace caffe
