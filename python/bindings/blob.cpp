#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/memory/blob.hpp"

namespace py = pybind11;

namespace {

using caffe::BlobBase;
using caffe::SyncedMemory;

py::dtype NumpyType(caffe::DataType type) {
  if (type == caffe::kFloat) return py::dtype("float32");
  if (type == caffe::kHalf) return py::dtype("float16");
  if (type == caffe::kDouble) return py::dtype("float64");
  if (type == caffe::kQuant8) return py::dtype("uint8");
  return py::dtype("uint16");  // bfloat16's bits, quant16's codes
}

// A view of host memory that keeps that memory alive, also beyond the blob.
py::object View(const BlobBase& blob, const std::shared_ptr<SyncedMemory>& memory, int64_t offset) {
  auto* owner = new std::shared_ptr<void>(memory->View());
  const py::capsule base(owner, [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
  char* data = static_cast<char*>(owner->get()) + offset;
  py::array array(NumpyType(blob.type()), blob.shape(), data, base);
  if (blob.num_axes() > 0) return array;
  return py::module_::import("caffe.scalar_view").attr("scalar_view")(array);
}

void Reshape(BlobBase& blob, const py::args& extents) {
  caffe::Shape shape;
  for (const auto& extent : extents) shape.push_back(extent.cast<int64_t>());
  blob.Reshape(shape);
}

}  // namespace

void BindBlob(py::module_& module) {
  py::class_<BlobBase, std::shared_ptr<BlobBase>>(
      module, "Blob", "An N-dimensional array with data and diff; images are (N, C, H, W).")
      .def_property_readonly("shape",
                             [](const BlobBase& blob) { return py::tuple(py::cast(blob.shape())); })
      .def_property_readonly("num", &BlobBase::num)
      .def_property_readonly("channels", &BlobBase::channels)
      .def_property_readonly("height", &BlobBase::height)
      .def_property_readonly("width", &BlobBase::width)
      .def_property_readonly("count", [](const BlobBase& blob) { return blob.count(); })
      .def_property_readonly("name", &BlobBase::name)
      .def_property_readonly("data_type",
                             [](const BlobBase& blob) {
                               return static_cast<caffe::DataTypeProto>(blob.type().info().proto);
                             })
      .def_property_readonly(
          "data",
          [](const BlobBase& blob) { return View(blob, blob.data_memory(), blob.data_offset()); },
          "A view of the values. bfloat16 comes as its bits (uint16), see caffe.bfloat16.")
      .def_property_readonly(
          "diff",
          [](const BlobBase& blob) { return View(blob, blob.diff_memory(), blob.diff_offset()); },
          "A view of the gradient.")
      .def("reshape", &Reshape);
}
