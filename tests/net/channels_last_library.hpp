#pragma once

#include "caffe/device/device.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {

// Computes by conversions, and says that it is faster in kNHWC. With `parts`, it also writes parts
// of the channels of larger arrays.
inline ConvLibrary ChannelsLastLibrary(const char* name, bool parts = true) {
  ConvLibrary row = ConvertingLibrary([name, parts](Device* device, const ConvDescriptor& d) {
    const char* const in_c_order = device->host_accessible() ? "native" : "generated";
    return Multiplexer::ConvolutionBy(parts && d.has_private_layout() ? name : in_c_order, device,
                                      d);
  });
  row.name = name;
  row.supports = [](Device*, const ConvDescriptor& d) { return !d.quantized(); };
  row.prefers_nhwc = [](Device*, const ConvDescriptor&) { return true; };
  return row;
}

}  // namespace caffe
