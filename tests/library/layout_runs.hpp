#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe::test {

// Values of an array [images, channels, positions] in C order, in another order of elements.
inline std::vector<double> InLayout(const std::vector<double>& values, Layout layout,
                                    int64_t channels, int64_t positions, bool back = false) {
  if (layout == Layout::kNCHW) return values;
  std::vector<double> result(values.size());
  const int64_t image = channels * positions;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t n = i / image, c = i % image / positions, p = i % positions;
    const int64_t other = n * image + p * channels + c;
    if (back) {
      result[i] = values[other];
    } else {
      result[other] = values[i];
    }
  }
  return result;
}

// A library for a convolution, with one of the layouts of x and y that it supports.
struct LayoutRun {
  std::string library;
  ConvDescriptor descriptor;

  std::vector<double> X(const std::vector<double>& values, bool back = false) const {
    const ConvDescriptor& d = descriptor;
    return InLayout(values, d.x_layout, d.in_channels, d.geometry.input_count(), back);
  }
  std::vector<double> Y(const std::vector<double>& values, bool back = false) const {
    const ConvDescriptor& d = descriptor;
    return InLayout(values, d.y_layout, d.out_channels, d.geometry.output_count(), back);
  }
  std::vector<double> FromX(const std::vector<double>& values) const { return X(values, true); }
  std::vector<double> FromY(const std::vector<double>& values) const { return Y(values, true); }
};

// All libraries of a device, each with all pairs of layouts that it supports.
inline std::vector<LayoutRun> LayoutRuns(Device* device, ConvDescriptor d) {
  std::vector<LayoutRun> runs;
  d.Normalize();
  for (const Layout x : {Layout::kNCHW, Layout::kNHWC}) {
    for (const Layout y : {Layout::kNCHW, Layout::kNHWC}) {
      d.x_layout = x;
      d.y_layout = y;
      std::vector<std::string> libraries;
      try {
        libraries = Multiplexer::ConvolutionLibraries(device, d);
      } catch (const Error&) {
        // There may be no library for a private layout.
        if (!d.has_private_layout()) throw;
      }
      for (const std::string& library : libraries) runs.push_back({library, d});
    }
  }
  return runs;
}

}  // namespace caffe::test
