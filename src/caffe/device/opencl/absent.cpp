#include "caffe/device/device.hpp"

namespace caffe {

BackendDevices FindOpenClDevices() {
  return {{}, "OpenCL: this build has no OpenCL (its headers were not there at build time)"};
}

}  // namespace caffe
