// Nets on threads, each with its own stream: they compute the results of a serial run, and they do
// not wait for each other.
#include <atomic>
#include <functional>
#include <thread>

#include "caffe/device/stream.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int kThreads = 2, kPasses = 6;

class NetStreamsTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(int inputs) {
    NetParameter net = ParseNet(
        "force_backward: true " + InputText("x", {4, 3, inputs, inputs}) +
        "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { "
        "num_output: 5 kernel_size: 3 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } } } " +
        ReluText("relu", "c") +
        "layer { name: 'pool' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { kernel_size: 2 "
        "stride: 2 } } " +
        InnerProductText("ip", "p", 7) +
        "layer { name: 'y' type: 'Softmax' bottom: 'ip' top: 'y' } "
        "layer { name: 'sum' type: 'Reduction' bottom: 'y' top: 'sum' loss_weight: 1 "
        "reduction_param { operation: SUMSQ } }");
    net.set_data_type(static_cast<DataTypeProto>(GetParam().type.info().proto));
    NetOptions options;
    options.device = device_;
    options.phase = TRAIN;
    options.seed = 1701;
    return std::make_unique<Net>(net, options);
  }

  // Runs a forward and a backward; returns y and the gradients of x and of all parameters.
  static std::vector<std::vector<double>> Pass(Net* net, uint64_t seed) {
    FillInputs(net, seed);
    net->ClearParamDiffs();
    net->Forward();
    net->Backward();
    std::vector<std::vector<double>> results{Values(*net, "y"),
                                             net->BlobByName("x")->DiffAsDouble()};
    for (BlobBase* parameter : net->learnable_params())
      results.push_back(parameter->DiffAsDouble());
    return results;
  }

  // Runs work(0), work(1), … at the same time, each in a thread with its own stream.
  void InThreads(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const auto stream = device_->CreateStream();
        const StreamScope scope(device_, stream.get());
        work(t);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Device* const device_ = GetParam().device;
};

TEST_P(NetStreamsTest, ThreadsWithStreamsGiveTheBitsOfASerialRun) {
  std::vector<std::vector<std::vector<double>>> expected[kThreads], got[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    const auto net = Make(8 + t);
    for (int pass = 0; pass < kPasses; ++pass) {
      expected[t].push_back(Pass(net.get(), 10 * t + pass));
    }
  }
  InThreads([&](int t) {
    const auto net = Make(8 + t);
    for (int pass = 0; pass < kPasses; ++pass) got[t].push_back(Pass(net.get(), 10 * t + pass));
  });
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(got[t], expected[t]) << t;
}

// After each net has run on its stream, no stream waits for another any more, so that the device
// may run both at the same time.
TEST_P(NetStreamsTest, WarmNetsDoNotWaitForEachOther) {
  std::atomic<int> warm{0};
  std::atomic<int64_t> before{-1}, after{-1};
  std::atomic<int> done{0};
  InThreads([&](int t) {
    const auto net = Make(8 + t);
    for (int pass = 0; pass < 2; ++pass) Pass(net.get(), pass);
    if (++warm == kThreads) before = device_->counters().stream_waits;
    while (before < 0) std::this_thread::yield();
    for (int pass = 0; pass < kPasses; ++pass) Pass(net.get(), pass);
    if (++done == kThreads) after = device_->counters().stream_waits;
    // Threads free memory only after the count was read.
    while (after < 0) std::this_thread::yield();
  });
  EXPECT_EQ(after, before);
}

// The first net that needs shared weights uploads them; the other nets wait for that upload and
// then read the weights at the same time.
TEST_P(NetStreamsTest, NetsShareParametersAcrossStreams) {
  const auto master = Make(8);
  std::vector<std::vector<double>> expected;
  for (int t = 0; t < kThreads; ++t) {
    FillInputs(master.get(), t);
    master->Forward();
    expected.push_back(Values(*master, "y"));
  }
  std::vector<std::unique_ptr<Net>> nets;
  for (int t = 0; t < kThreads; ++t) {
    nets.push_back(Make(8));
    for (BlobBase* parameter : nets.back()->learnable_params()) {
      parameter->SetData(std::vector<double>(parameter->count(), 0));
    }
    nets.back()->ShareTrainedLayersWith(*master);
  }
  std::vector<int> wrong(kThreads, 0);
  InThreads([&](int t) {
    for (int pass = 0; pass < kPasses; ++pass) {
      FillInputs(nets[t].get(), t);
      nets[t]->Forward();
      wrong[t] += Values(*nets[t], "y") != expected[t];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

INSTANTIATE_TEST_SUITE_P(All, NetStreamsTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
