// The memory that a device holds over forwards of many shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "caffe/core/error.hpp"
#include "caffe/device/freed_memory.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

TEST(ManyShapesTest, HoldLittleMoreThanTheLargest) {
  // OpenCL compiles convolutions for each shape.
  std::string text = InputText("data", {1, 8, 32, 32}), bottom = "data";
  for (const char* name : {"a", "b", "c"}) {
    text += Concat("layer { name: '", name, "' type: 'Pooling' bottom: '", bottom, "' top: '", name,
                   "' pooling_param { pool: MAX kernel_size: 3 stride: 1 pad: 1 } } ");
    bottom = name;
  }
  for (Device* device : TestDevices()) {
    ReleaseMemory();
    const int64_t before = device->bytes_in_use() + FreedBytes(*device);
    auto net = MakeNet(text, device);
    std::minstd_rand random(1);
    int64_t need = 0, most = 0;
    for (int i = 0; i < 100; ++i) {
      const int64_t height = 20 + random() % 200, width = 20 + random() % 200;
      net->BlobByName("data")->Reshape({1, 8, height, width});
      net->Forward();
      need = std::max(need, net->memory_needs().total());
      most = std::max(most, device->bytes_in_use() + FreedBytes(*device) - before);
    }
    EXPECT_GE(most, need) << device->info().id;
    EXPECT_LE(most, 3 * need / 2 + kMebibyte) << device->info().id;
    net.reset();
    EXPECT_LE(device->bytes_in_use() + FreedBytes(*device) - before, kMebibyte)
        << device->info().id;
  }
}

}  // namespace
}  // namespace caffe
