#pragma once

#include <memory>
#include <string>

#include "caffe/library/operator.hpp"
#include "caffe/memory/derived.hpp"
#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// The weights of an operator in its own form, see Operator::Prepare.
class PreparedWeights final : public Derived {
 public:
  PreparedWeights() = default;
  // `key`: of the form. The weights must outlive this.
  PreparedWeights(const BlobBase* weights, std::string key);
  // The next Refresh is by this one of the operators that use them. Another library, which needs
  // another form, may have replaced the first one. Returns null if it uses the weights unchanged.
  Derived* By(Operator* op);
  // Null if the operator uses the weights unchanged.
  DevicePtr data() const { return data_; }

 private:
  void Build() override;

  Operator* op_ = nullptr;  // of the last By
  const BlobBase* weights_ = nullptr;
  std::string form_;
  const char* library_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
  DevicePtr data_;  // of the buffer, with the scale of the weights
};

}  // namespace caffe
