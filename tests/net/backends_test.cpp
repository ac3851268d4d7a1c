#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/backend.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/net/net.hpp"

// A device of a new kind: its folder would hold this, and backends.cpp one row.
namespace caffe {
namespace {

class Null2Device final : public NullDevice {
 public:
  Null2Device() : NullDevice("cuda") {
    info_.backend = "null2";
    info_.id = "null2";
    info_.name = "a device of the tests";
  }
};

BackendDevices FindNull2() {
  BackendDevices found;
  found.devices.push_back(std::make_unique<Null2Device>());
  return found;
}

// It is found by its name and runs nets; it has no number, so that no other test meets it.
TEST(BackendsTest, ANewDeviceIsAFolderAndARow) {
  Runtime& runtime = Runtime::Get();
  const Backend row{"null2", &FindNull2, {}, false};
  const size_t listed = runtime.devices().size();
  runtime.AddBackend(row);
  EXPECT_THROW(runtime.AddBackend(row), Error) << "there is one of this name already";
  Device* const device = runtime.DeviceByName("null2");
  EXPECT_EQ(runtime.DeviceByName("null2"), device);
  EXPECT_EQ(runtime.IndexOf(device), -1);
  EXPECT_EQ(runtime.devices().size(), listed);

  NetParameter parameter;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    layer { name: "data" type: "Input" top: "data"
            input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "score" type: "InnerProduct" bottom: "conv" top: "score"
            inner_product_param { num_output: 5 } })",
                                                            &parameter));
  NetOptions options;
  options.device = device;
  Net net(parameter, options);
  device->ResetCounters();
  net.Forward();
  EXPECT_GT(device->counters().launches, 0);
  const auto& texts = static_cast<Null2Device*>(device)->texts();
  ASSERT_FALSE(texts.empty());
  EXPECT_TRUE(std::ranges::all_of(texts, [](const ProgramText& text) {
    return text.options.starts_with(BackendNamed("cuda").dialect.options);
  }));
}

}  // namespace
}  // namespace caffe
