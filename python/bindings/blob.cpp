#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/memory/blob.hpp"
#include "net_lock.hpp"

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

// A view of host memory that keeps that memory alive, also beyond the blob. The blob is not touched
// once Python may let other threads run.
py::object View(caffe::Shape shape, caffe::DataType type, SyncedMemory* memory, int64_t offset) {
  auto* owner = new std::shared_ptr<void>(memory->View());
  const py::capsule base(owner, [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
  char* data = static_cast<char*>(owner->get()) + offset;
  py::array array(NumpyType(type), shape, data, base);
  if (!shape.empty()) return array;
  return py::module_::import("caffe.scalar_view").attr("scalar_view")(array);
}

py::object Data(const BlobBase& blob) {
  WaitUntilIdle(blob);
  return View(blob.shape(), blob.type(), blob.data_memory().get(), blob.data_offset());
}

py::object Diff(const BlobBase& blob) {
  WaitUntilIdle(blob);
  return View(blob.shape(), blob.type(), blob.diff_memory().get(), blob.diff_offset());
}

void Reshape(BlobBase& blob, const py::args& extents) {
  const caffe::Shape shape = ToShape(extents, "blob " + blob.name() + ": reshape");
  WaitUntilIdle(blob);
  blob.Reshape(shape);
}

// A number that follows from the shape.
template <int64_t (BlobBase::*number)() const> int64_t Number(const BlobBase& blob) {
  WaitUntilIdle(blob);
  return (blob.*number)();
}

int64_t Count(const BlobBase& blob) {
  WaitUntilIdle(blob);
  return blob.count();
}

py::tuple ShapeOf(const BlobBase& blob) {
  WaitUntilIdle(blob);
  const caffe::Shape shape = blob.shape();
  return py::tuple(py::cast(shape));
}

}  // namespace

void BindBlob(py::module_& module) {
  py::class_<BlobBase, std::shared_ptr<BlobBase>>(
      module, "Blob", "An N-dimensional array with data and diff; images are (N, C, H, W).")
      .def_property_readonly("shape", &ShapeOf)
      .def_property_readonly("num", &Number<&BlobBase::num>)
      .def_property_readonly("channels", &Number<&BlobBase::channels>)
      .def_property_readonly("height", &Number<&BlobBase::height>)
      .def_property_readonly("width", &Number<&BlobBase::width>)
      .def_property_readonly("count", &Count)
      .def_property_readonly("name", &BlobBase::name)
      .def_property_readonly("data_type",
                             [](const BlobBase& blob) {
                               return static_cast<caffe::DataTypeProto>(blob.type().info().proto);
                             })
      .def_property_readonly(
          "data", &Data,
          "A view of the values. bfloat16 comes as its bits (uint16), see caffe.bfloat16.")
      .def_property_readonly("diff", &Diff, "A view of the gradient.")
      .def("reshape", &Reshape, "reshape(2, 3) or reshape((2, 3)).");
}
