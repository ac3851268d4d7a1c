// A net that needs more memory than there is says so before it takes it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/available_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

// The machine seems to have as much memory as Have says.
class MemoryForecastTest : public testing::Test {
 protected:
  ~MemoryForecastTest() override { SetHostMemoryRoot("/"); }

  void Have(int64_t bytes) {
    std::filesystem::create_directories(folder_.path() / "proc");
    std::ofstream(folder_ / "proc/meminfo") << "MemAvailable: " << (bytes >> 10) << " kB\n";
    SetHostMemoryRoot(folder_.path());
  }
  // Three blobs of 4 MiB, of which two are alive at a time, and those of the loss.
  static std::unique_ptr<Net> Make(Device* device, int phase) {
    std::string text = InputText("data", {1, 16, 256, 256}) + InputText("label", {1});
    std::string bottom = "data";
    for (const char* name : {"a", "b", "c"}) {
      text += Concat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                     name, "' convolution_param { num_output: 16 kernel_size: 1 ",
                     "weight_filler { type: 'xavier' } } } ");
      text += Concat("layer { name: '", name, "_tanh' type: 'TanH' bottom: '", name, "' top: '",
                     name, "' } ");
      bottom = name;
    }
    text +=
        "layer { name: 'pool' type: 'Pooling' bottom: 'c' top: 'pool' pooling_param { "
        "global_pooling: true pool: AVE } } "
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'pool' bottom: 'label' "
        "top: 'loss' } ";
    return MakeNet(text, device, phase);
  }
  static std::vector<Device*> HostDevices() {
    std::vector<Device*> devices;
    for (Device* device : TestDevices()) {
      if (device->info().is_cpu_type) devices.push_back(device);
    }
    return devices;
  }

  TemporaryFolder folder_;
};

TEST_F(MemoryForecastTest, NothingIsTakenIfThereIsTooLittle) {
  for (Device* device : HostDevices()) {
    const auto net = Make(device, TEST);
    const int64_t need = net->memory_needs().total();
    ASSERT_GT(need, 8 * kMebibyte);
    device->ReleaseCache();  // freed memory is available, too
    Have(need / 2);
    const int64_t before = device->bytes_in_use();
    std::string message;
    try {
      net->Forward();
    } catch (const OutOfMemory& error) {
      message = error.what();
    }
    for (const std::string& part :
         {device->info().id + " (", std::string("out of memory: the net needs "),
          net->memory_needs().ToString(), std::to_string(need / 2 >> 10 << 10),
          std::string("are available (MemAvailable of /proc/meminfo); use a smaller batch or a "),
          std::string("CAFFE_MEMORY_CHECK=off")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    }
    EXPECT_LT(device->bytes_in_use() - before, kMebibyte);
    {
      const ScopedVariable off("CAFFE_MEMORY_CHECK", "off");
      net->Forward();
    }
    Have(need + kMebibyte);
    Make(device, TEST)->Forward();
  }
}

TEST_F(MemoryForecastTest, EachShapeIsChecked) {
  const auto net = Make(Runtime::Get().cpu(), TEST);
  Have(2 * net->memory_needs().total());
  net->Forward();
  net->BlobByName("data")->Reshape({8, 16, 256, 256});
  net->BlobByName("label")->Reshape({8});
  EXPECT_THROW(net->Forward(), OutOfMemory);
  EXPECT_THROW(net->Forward(), OutOfMemory);
  // The memory that the net has for the first shape counts.
  net->BlobByName("data")->Reshape({2, 16, 256, 256});
  net->BlobByName("label")->Reshape({2});
  net->Forward();
}

TEST_F(MemoryForecastTest, TrainingNeedsMoreThanAForward) {
  const auto net = Make(Runtime::Get().cpu(), TRAIN);
  net->BlobByName("data");
  Have(40 * kMebibyte);
  net->Forward();
  Have(4 * kMebibyte);
  EXPECT_THROW(net->Backward(), OutOfMemory);
  Have(64 * kMebibyte);
  net->Backward();
}

TEST_F(MemoryForecastTest, AnIterationThatFreesMemoryNeedsLess) {
  const auto stores = Make(Runtime::Get().cpu(), TRAIN), frees = Make(Runtime::Get().cpu(), TRAIN);
  const int64_t need = frees->memory_needs().total();
  Have(need + kMebibyte);
  EXPECT_TRUE(Holds(ErrorOf([&] { stores->ForwardBackward(); }),
                    Concat("; a solver with frees_memory set needs ", need, " bytes")));
  frees->set_frees_memory(true);
  frees->ForwardBackward();
}

}  // namespace
}  // namespace caffe
