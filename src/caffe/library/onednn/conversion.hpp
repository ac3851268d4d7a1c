#pragma once

#include <memory>

#include "caffe/device/device.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/onednn/arrays.hpp"
#include "caffe/library/onednn/onednn_call.hpp"

namespace caffe::onednn {

std::unique_ptr<Call> MakeReorder(const Desc& from, const Desc& to);

// Conversions of an array between the caller's type and layout and oneDNN's.
class Conversion {
 public:
  // `inner` is the type of oneDNN's array.
  Conversion(Device* device, DataType type, Layout layout, Element inner, const Dims& dims);
  bool narrow() const { return narrow_; }

  // Makes the rooms and the calls of conversions to oneDNN's array.
  void PlanIn(WorkspaceLayout* layout);
  const void* In(DevicePtr array, DevicePtr workspace);

  // The same from oneDNN's array. `narrows`: Out also narrows; otherwise a pass does so.
  void PlanOut(WorkspaceLayout* layout, bool narrows);
  // Where oneDNN stores.
  DevicePtr Target(DevicePtr array, DevicePtr workspace) const {
    return ordered_out_ ? ordered_out_.In(workspace) : Sums(array, workspace);
  }
  // The result of Out if it does not narrow.
  DevicePtr Sums(DevicePtr array, DevicePtr workspace) const {
    return wide_out_ ? wide_out_.In(workspace) : array;
  }
  void Out(DevicePtr array, DevicePtr workspace);

 private:
  void Launch(Kernel* kernel, DevicePtr from, DevicePtr to) const;
  bool interleaves() const;
  void Interleave(const char* x, char* y) const;

  int64_t count_, images_, channels_;
  bool wide_, narrow_;
  int64_t type_bytes_;  // of an element of the array
  bool reorders_, narrows_ = false;
  Desc plain_, inner_;
  Room wide_in_, ordered_in_, ordered_out_, wide_out_;
  std::unique_ptr<Kernel> widen_, narrow_kernel_;
  std::unique_ptr<Call> in_, out_;
};

}  // namespace caffe::onednn
