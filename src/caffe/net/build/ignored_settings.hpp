#pragma once

namespace caffe {

class Device;
class NetParameter;

// Warns of settings of the OpenCL fork that do not change results and do nothing here:
// autotune, the device of a layer that is not that of the net, and net_quantizer.
void WarnOfIgnoredSettings(const NetParameter& net, const Device& device);

}  // namespace caffe
