#include "graph_epoch.hpp"

#include <utility>

namespace caffe {

void GraphEpoch::Begin() {
  now_.clear();
  complete_ = true;
}

void GraphEpoch::Add(DevicePtr pointer) {
  if (!pointer) complete_ = false;
  now_.push_back(reinterpret_cast<uintptr_t>(pointer.handle));
  now_.push_back(static_cast<uint64_t>(pointer.offset));
}

int GraphEpoch::End() {
  same_ = complete_ && now_ == before_ ? same_ + 1 : 0;
  std::swap(now_, before_);
  if (!complete_) before_.clear();
  return same_;
}

}  // namespace caffe
