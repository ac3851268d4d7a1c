#include "caffe/layer/forward_counter.hpp"

#include <cstring>

#include "caffe/device/program_builder.hpp"

namespace caffe {

void ForwardCounter::Place(Device* device) {
  if (!count_) {
    count_ = std::make_unique<Blob<float>>(device, Shape{1});
    count_->set_name("count of forwards");
  }
  count_->SetDevice(device);
  advance_ = ProgramBuilder(device, "advance")
                 .Body("neuron/advance")
                 .Build()
                 ->CreateKernel("advance_counter");
}

void ForwardCounter::Advance() { advance_->Launch(1, {1, count_->MutableData()}); }

uint32_t ForwardCounter::Get() const {
  uint32_t value;
  std::memcpy(&value, count_->cpu_data(), sizeof(value));
  return value;
}

void ForwardCounter::Set(uint32_t value) {
  std::memcpy(count_->mutable_cpu_data(), &value, sizeof(value));
}

}  // namespace caffe
