#include "caffe/device/device.hpp"

namespace caffe {

BackendDevices FindOpenClDevices() {
  return {{}, "OpenCL: this build has no OpenCL (its headers were missing at build time)"};
}

}  // namespace caffe
