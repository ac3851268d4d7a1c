#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"
#include "caffe/memory/data_stamp.hpp"

namespace caffe {

// A derived copy of a parameter blob in another type: the half copy of a float master. Refresh()
// before a forward rebuilds it on the device if the source was written since or lies in another
// memory; in between, data() is a plain pointer. Where the types are equal it is the source itself and costs nothing.
class ParameterCopy {
 public:
  ParameterCopy() = default;
  // `source` must outlive this.
  ParameterCopy(BlobBase* source, DataType type, Device* device);
  void Refresh();
  DevicePtr data() const;

 private:
  BlobBase* source_ = nullptr;
  std::shared_ptr<BlobBase> copy_;
  std::unique_ptr<Kernel> convert_;
  DataStamp made_of_;
};

}  // namespace caffe
