#pragma once

#include <memory>

#include "caffe/memory/derived.hpp"

namespace caffe {

class PackedParameter;

// A parameter blob in another type: the half copy of a float master, converted on the device. Where
// the types are equal it is the source itself; Refresh then only uploads it. Elements that a file
// stores in the other type (PackedParameter) are taken as they are.
class ParameterCopy final : public Derived {
 public:
  ParameterCopy() = default;
  // `source` must outlive this.
  ParameterCopy(const BlobBase* source, DataType type, Device* device);
  const BlobBase& blob() const { return copy_ ? *copy_ : *source_; }
  DevicePtr data() const { return blob().device_data(); }
  // False if blob() is the source.
  bool converts() const { return copy_ != nullptr; }
  // Whether blob() is what a file stores.
  bool takes_stored() const { return Stored() != nullptr; }

 private:
  void Build() override;
  std::shared_ptr<const PackedParameter> Stored() const;
  QuantRange RangeOfSource() const;

  const BlobBase* source_ = nullptr;
  std::shared_ptr<BlobBase> copy_;
  std::unique_ptr<Kernel> convert_;
};

}  // namespace caffe
