// Times of tilings; not part of the tests.
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "caffe/library/device_array.hpp"
#include "caffe/library/generated/float_product.hpp"
#include "caffe/library/tuning_table.hpp"
#include "library/library_support.hpp"

namespace caffe {
TEST(ZzTileTimes, DISABLED_All) {
  struct Shape {
    const char* name;
    int64_t batch, size, in, out, kernel, pad, group;
  };
  const Shape shapes[] = {
      {"caffe conv1f", 256, 57, 48, 96, 3, 0, 1},   {"caffe conv2", 256, 27, 96, 256, 5, 2, 2},
      {"caffe conv3", 256, 13, 256, 384, 3, 1, 1},  {"caffe conv4", 256, 13, 384, 384, 3, 1, 2},
      {"caffe conv5", 256, 13, 384, 256, 3, 1, 2},  {"fc6 256", 256, 1, 9216, 4096, 1, 0, 1},
      {"fc7 256", 256, 1, 4096, 4096, 1, 0, 1},     {"fc8 256", 256, 1, 4096, 1000, 1, 0, 1},
      {"fc6 1", 1, 1, 9216, 4096, 1, 0, 1},         {"fc6 16", 16, 1, 9216, 4096, 1, 0, 1},
      {"sq 64-16 1x1", 256, 55, 64, 16, 1, 0, 1},   {"sq 16-64 1x1", 256, 55, 16, 64, 1, 0, 1},
      {"sq 16-64 3x3", 256, 55, 16, 64, 3, 1, 1},   {"sq 48-192 3x3", 256, 27, 48, 192, 3, 1, 1},
      {"sq conv10", 256, 13, 512, 1000, 1, 0, 1},   {"rn 64-256 1x1", 256, 56, 64, 256, 1, 0, 1},
      {"rn 256-64 1x1", 256, 56, 256, 64, 1, 0, 1}, {"rn 64-64 3x3", 256, 56, 64, 64, 3, 1, 1},
      {"rn 256-256 3x3", 256, 14, 256, 256, 3, 1, 1}, {"rn 512 3x3", 256, 7, 512, 512, 3, 1, 1},
      {"rn 2048-512", 256, 7, 2048, 512, 1, 0, 1},  {"rn1 256 3x3", 1, 14, 256, 256, 3, 1, 1},
      {"rn1 512 3x3", 1, 7, 512, 512, 3, 1, 1},     {"rn1 64-256", 1, 56, 64, 256, 1, 0, 1}};
  for (Device* device : test::AllDevices()) {
    if (device->host_accessible() || !device->info().matrix) continue;
    for (const DataType type : {kHalf, kFloat}) {
      for (const Shape& s : shapes) {
        MatrixProduct::Problem p;
        p.type = p.out = type;
        p.batch = s.batch;
        for (int a = 0; a < 2; ++a) {
          p.window.input[a] = s.size;
          p.window.output[a] = s.size + 2 * s.pad - s.kernel + 1;
          p.window.kernel[a] = p.plain_kernel[a] = s.kernel;
          p.window.pad[a] = s.pad;
        }
        p.channels = s.in;
        p.plain_channels = s.in / s.group;
        p.group = s.group;
        p.out_channels = p.y_row = s.out;
        p.epilogue.bias = Epilogue::Bias::kPerRow;
        p.epilogue.stages = {kPlainReLU};
        const int64_t bytes = static_cast<int64_t>(type.bytes());
        const int64_t rows = MatrixProduct::Rows(p);
        const DeviceArray x(device, s.batch * s.size * s.size * s.in * bytes, "x");
        const DeviceArray y(device, rows * s.out * bytes, "y");
        const DeviceArray w(device, s.out * (s.in / s.group * s.kernel * s.kernel + 64) * bytes, "w");
        const DeviceArray b(device, s.out * 4, "b");
        for (const DeviceArray* array : {&x, &y, &w, &b}) {
          device->Fill(array->get(), 0x2c, array->bytes());
        }
        const double work = 2e-9 * static_cast<double>(rows * s.out) *
                            static_cast<double>(s.in / s.group * s.kernel * s.kernel);
        std::printf("%s %s %-15s", device->info().id.c_str(), type.name().c_str(), s.name);
        for (int tile = -1; tile < FloatProduct::Tilings(p); ++tile) {
          FloatProduct product(device, p, tile);
          const double ms = MeasureMilliseconds(
              device, [&] { product.Run({x.get(), w.get(), b.get(), y.get()}); },
              std::numeric_limits<double>::infinity());
          std::printf(" | %7.4f ms %5.1f", ms, work / ms);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
}
}  // namespace caffe
