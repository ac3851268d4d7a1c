#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Element = dnnl::memory::data_type;

inline void* At(DevicePtr pointer) { return pointer ? pointer.address() : nullptr; }
// The values of a narrow array, with its scale.
std::vector<float> Widened(DevicePtr array, DataType type, int64_t count);
inline int64_t Bytes(const Desc& desc) { return static_cast<int64_t>(desc.get_size()); }

// The instruction level to which oneDNN was limited at its first use; it cannot change later.
const std::string& Level();

// The type with which products of `type` are computed: oneDNN computes bfloat16 by itself if the
// processor multiplies it; other half kinds are widened.
Element Inner(DataType type);

// The order of elements of an image.
Tag Plain(Layout layout, int axes);

// Scratch memory is the caller's.
dnnl::primitive_attr Attributes();

// An array in the workspace; -1: none.
struct Room {
  int64_t offset = -1;
  explicit operator bool() const { return offset >= 0; }
  DevicePtr In(DevicePtr workspace) const { return workspace + offset; }
};

inline Room Add(WorkspaceLayout* layout, int64_t bytes) { return {layout->Add(bytes)}; }

}  // namespace caffe::onednn
