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
  // `key` is that of the operator's descriptor. Operator and weights must outlive this.
  PreparedWeights(Operator* op, const BlobBase* weights, std::string key);
  // Another library, which needs another form, may have replaced the first one.
  bool Refresh();
  // Null if the operator uses the weights unchanged.
  DevicePtr data() const { return buffer_ ? buffer_->pointer() : DevicePtr{}; }

 private:
  void Build() override;

  Operator* op_ = nullptr;
  const BlobBase* weights_ = nullptr;
  std::string descriptor_;
  const char* library_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
};

}  // namespace caffe
