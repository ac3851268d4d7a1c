#pragma once

#include "caffe/layer/work.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/net/arrays.hpp"

namespace caffe {

// Copies the data, or the diff, of a blob to one of the same shape in another layout. Blobs and
// converter must outlive the work.
class ConvertWork final : public Work {
 public:
  // `pitch`: LayoutConverter::Run.
  ConvertWork(LayoutConverter* converter, Array::Kind kind, const BlobBase* from, BlobBase* to,
              Layout layout, int64_t pitch = 0)
      : converter_(*converter),
        kind_(kind),
        from_(*from),
        to_(*to),
        layout_(layout),
        pitch_(pitch) {}
  void Run(DevicePtr) override {
    const bool diff = kind_ == Array::Kind::kDiff;
    const DevicePtr x = diff ? from_.device_diff() : from_.device_data();
    const DevicePtr y = diff ? to_.overwrite_device_diff() : to_.overwrite_device_data();
    converter_.Run(from_.shape(), x, y, layout_, pitch_);
  }

 private:
  LayoutConverter& converter_;
  Array::Kind kind_;
  const BlobBase& from_;
  BlobBase& to_;
  Layout layout_;
  int64_t pitch_;
};

}  // namespace caffe
