#include "caffe/library/onednn/arrays.hpp"

#include <cmath>

#include "caffe/device/cpu/cpu_device.hpp"

namespace caffe::onednn {
namespace {

bool MultipliesBfloat16() {
#if defined(__x86_64__)
  static const bool has = HostLevel() == "v4" && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

}  // namespace

std::vector<float> Widened(DevicePtr array, DataType type, int64_t count) {
  std::vector<float> wide(static_cast<size_t>(count));
  ConvertElements(type, At(array), kFloat, wide.data(), wide.size());
  if (array.exponent != 0) {
    for (float& value : wide) value = std::ldexp(value, array.exponent);
  }
  return wide;
}

const std::string& Level() {
  static const std::string level = [] {
    if (HostLevel() == "v2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
    if (HostLevel() == "v3") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return HostLevel();
  }();
  return level;
}

Element Inner(DataType type) {
  return type == kBfloat16 && MultipliesBfloat16() ? Element::bf16 : Element::f32;
}

Tag Plain(Layout layout, int axes) {
  if (layout == Layout::kNCHW) return axes == 1 ? Tag::ncw : axes == 2 ? Tag::nchw : Tag::ncdhw;
  return axes == 1 ? Tag::nwc : axes == 2 ? Tag::nhwc : Tag::ndhwc;
}

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace caffe::onednn
