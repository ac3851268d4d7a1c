// Maxima of codes with channels last, which devices read in vectors, against their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "caffe/library/multiplexer.hpp"
#include "caffe/library/pooling.hpp"
#include "library/exact_codes.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using exact::Codes;
using exact::Numbers;

struct Case {
  int64_t channels, pitch,
      first;  // y are channels from `first` on of an array with `pitch` channels
  PoolDescriptor::Axis height, width;
};

// y [images, height, width, pitch], whose other elements are 7.
std::vector<int64_t> Maxima(const Case& one, int64_t images, const std::vector<int64_t>& x) {
  const PoolDescriptor::Axis &h = one.height, &w = one.width;
  std::vector<int64_t> y(images * h.output * w.output * one.pitch, 7);
  for (int64_t position = 0; position < images * h.output * w.output; ++position) {
    const int64_t image = position / (h.output * w.output);
    const int64_t top = position / w.output % h.output * h.stride - h.pad;
    const int64_t left = position % w.output * w.stride - w.pad;
    for (int64_t c = 0; c < one.channels; ++c) {
      int64_t most = 0;
      for (int64_t i = std::max<int64_t>(top, 0); i < std::min(top + h.kernel, h.input); ++i) {
        for (int64_t j = std::max<int64_t>(left, 0); j < std::min(left + w.kernel, w.input); ++j) {
          most = std::max(most, x[((image * h.input + i) * w.input + j) * one.channels + c]);
        }
      }
      y[position * one.pitch + one.first + c] = most;
    }
  }
  return y;
}

TEST(MaxCodesTest, EqualTheirDefinition) {
  constexpr int64_t kImages = 2;
  // Vectors of 16, 8 and 4 bytes, no vectors, and parts that begin between vectors.
  const Case cases[] = {{32, 32, 0, {7, 3, 3, 2, 0}, {9, 4, 3, 2, 0}},
                        {8, 8, 0, {6, 6, 3, 1, 1}, {5, 5, 3, 1, 1}},
                        {4, 4, 0, {6, 3, 2, 2, 0}, {8, 2, 5, 4, 2}},
                        {5, 5, 0, {6, 3, 2, 2, 0}, {4, 2, 2, 2, 0}},
                        {16, 48, 16, {5, 3, 3, 2, 1}, {6, 4, 3, 2, 1}},
                        {16, 30, 3, {5, 1, 5, 1, 0}, {6, 1, 6, 1, 0}}};
  for (const DeviceType& on : DevicesAndTypes({kQuant8, kQuant16})) {
    for (const Case& one : cases) {
      PoolDescriptor d;
      d.method = PoolDescriptor::Method::kMax;
      d.types = TypeTriple::Equal(on.type);
      d.planes = kImages * one.channels;
      d.channels = one.channels;
      d.y_pitch = one.pitch == one.channels ? 0 : one.pitch;
      d.layout = Layout::kNHWC;
      d.height = one.height;
      d.width = one.width;
      std::vector<int64_t> x(d.planes * d.height.input * d.width.input);
      Numbers numbers(3);
      for (int64_t& code : x) code = numbers.Next(0, on.type.info().code_max);
      const std::vector<int64_t> expected = Maxima(one, kImages, x);
      const Codes from(on.device, exact::Pack(x, on.type));
      const Codes to(on.device,
                     exact::Pack(std::vector<int64_t>(expected.size() + one.first, 7), on.type));
      PoolArguments a;
      a.x = from;
      a.y = static_cast<DevicePtr>(to) + one.first * static_cast<int64_t>(on.type.bytes());
      Multiplexer::Pooling(on.device, d)->Forward(a);
      std::vector<int64_t> y = exact::Unpack(to.Read(), on.type);
      y.resize(expected.size());
      EXPECT_EQ(y, expected) << on.device->info().id << " " << d.name();
    }
  }
}

}  // namespace
}  // namespace caffe
