#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/device.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/net/net.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::BlobBase;
using caffe::SyncedMemory;

py::dtype NumpyType(caffe::DataType type) {
  if (type == caffe::kFloat) return py::dtype("float32");
  if (type == caffe::kHalf) return py::dtype("float16");
  if (type == caffe::kDouble) return py::dtype("float64");
  if (type == caffe::kBfloat16) {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
  }
  return py::dtype(type.bytes() == 1 ? "uint8" : type.bytes() == 2 ? "uint16" : "uint32");
}

py::object Shared(const BlobBase& blob) {
  return py::cast(const_cast<BlobBase&>(blob).shared_from_this());
}

// A view of host memory that keeps the memory alive even if the blob is destroyed. Reads the blob
// only before Python can switch to another thread.
py::object View(std::string name, caffe::Shape shape, caffe::DataType type, SyncedMemory* memory) {
  auto* owner = new std::shared_ptr<void>(memory->View());
  const py::capsule base(owner, [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
  // Two elements in a byte have no axes.
  if (type.is_packed()) shape = {type.StorageBytes(caffe::ShapeCount(shape))};
  py::array array(NumpyType(type), shape, owner->get(), base);
  if (type.is_quantized() || type.is_custom()) {
    return py::module_::import("caffe.codes").attr("code_view")(array, name, type.name());
  }
  if (!shape.empty()) return array;
  return py::module_::import("caffe.scalar_view").attr("scalar_view")(array);
}

py::object Data(const BlobBase& blob) {
  WaitUntilIdle(blob);
  caffe::Net* const net = NetOf(blob);
  const bool changed_input = net && net->FirstVersion(blob);
  py::object view = View(blob.name(), blob.shape(), blob.type(), blob.data_memory().get());
  const bool codes = blob.type().is_quantized() || blob.type().is_custom();
  if (!changed_input || codes || blob.shape().empty()) return view;
  return py::module_::import("caffe.input_view").attr("input_view")(view, Shared(blob));
}

// The values that the caller wrote to an input that layers change in place, or None for other
// blobs.
py::object FirstVersion(const BlobBase& blob) {
  WaitUntilIdle(blob);
  caffe::Net* const net = NetOf(blob);
  BlobBase* const first = net ? net->FirstVersion(blob) : nullptr;
  return first ? Shared(*first) : py::object(py::none());
}

void NoteFirstVersion(const BlobBase& blob) {
  if (caffe::Net* net = NetOf(blob)) net->NoteFirstVersion(blob);
}

py::object Diff(const BlobBase& blob) {
  WaitUntilIdle(blob);
  return View(blob.name(), blob.shape(), blob.type(), blob.diff_memory().get());
}

// (scale, zero point, smallest code, largest code), or None without a range. Of a scaled type, the
// smallest and the largest value take the place of codes.
py::object Quantization(const BlobBase& blob) {
  WaitUntilIdle(blob);
  if (!blob.type().has_range()) return py::none();
  if (caffe::Net* net = NetOf(blob)) net->UpdateBlobRanges();
  const caffe::QuantRange& range = blob.range();
  if (!range.observed) return py::none();
  if (blob.type().is_scaled()) {
    const float largest = caffe::TableOf(blob.type()).largest();
    return py::make_tuple(range.scale, 0, -largest, largest);
  }
  const caffe::TypeInfo& info = blob.type().info();
  return py::make_tuple(range.scale, range.zero, info.code_min, info.code_max);
}

// For libraries that use addresses in a GPU's memory (PyCUDA, CuPy). Counts as writing.
uintptr_t Address(const BlobBase& blob, caffe::DevicePtr pointer) {
  CAFFE_CHECK(blob.device()->backend() != "opencl", "blob ", blob.name(),
              ": memory of an OpenCL device (", blob.device()->info().id, ") has no address");
  return reinterpret_cast<uintptr_t>(pointer.address());
}

void Reshape(BlobBase& blob, const py::args& extents) {
  const caffe::Shape shape = ToShape(extents, "blob " + blob.name() + ": reshape");
  WaitUntilIdle(blob);
  blob.Reshape(shape);
}

// A number computed from the shape.
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
      module, "Blob",
      "An N-dimensional array of one type with data and diff (its gradient), in C order.\n\n"
      "Images are (N, C, H, W): items, channels, height, width. Nets create blobs:\n"
      "net.blobs['data'], net.params['conv1'][0].")
      .def_property_readonly("shape", &ShapeOf, "The extents, a tuple of int.")
      .def_property_readonly("num", &Number<&BlobBase::num>,
                             "shape[0], int; 1 if the blob has no such axis.")
      .def_property_readonly("channels", &Number<&BlobBase::channels>,
                             "shape[1], int; 1 if the blob has no such axis.")
      .def_property_readonly("height", &Number<&BlobBase::height>,
                             "shape[2], int; 1 if the blob has no such axis.")
      .def_property_readonly("width", &Number<&BlobBase::width>,
                             "shape[3], int; 1 if the blob has no such axis.")
      .def_property_readonly("count", &Count, "The number of elements: the product of shape.")
      .def_property_readonly("name", &BlobBase::name,
                             "The name in the net, str; <layer>.<index> for a parameter.")
      .def_property_readonly(
          "data_type",
          [](const BlobBase& blob) {
            return static_cast<caffe::DataTypeProto>(blob.type().info().proto);
          },
          "The type of the elements, a caffe.data_type.")
      .def_property_readonly("_type_name", [](const BlobBase& blob) { return blob.type().name(); })
      .def_property_readonly("_is_custom",
                             [](const BlobBase& blob) { return blob.type().is_custom(); })
      .def_property_readonly("_is_packed",
                             [](const BlobBase& blob) { return blob.type().is_packed(); })
      .def_property_readonly("_is_scaled",
                             [](const BlobBase& blob) { return blob.type().is_scaled(); })
      .def_property_readonly(
          "device", [](const BlobBase& blob) { return blob.device(); },
          py::return_value_policy::reference, "The caffe.Device whose memory holds the blob.")
      .def_property_readonly(
          "data", &Data,
          "A NumPy view of the values with the blob's shape. The next pass reads what a script\n"
          "has written: blob.data[...] = x.\n\n"
          "The NumPy type is float32 for float, float16 for half, float64 for double,\n"
          "ml_dtypes.bfloat16 for bfloat16. quant8 and quant16 are codes, uint8 and uint16\n"
          "(caffe.codes.Codes), to which only integers can be assigned: use float_data for\n"
          "numbers. So are types of users, uint32 with more than 16 bits. Those with packed=True\n"
          "are bytes without axes, with two elements each, the first in the lower bits. Reading\n"
          "waits for the device.")
      .def_property_readonly(
          "diff", &Diff,
          "A NumPy view of the gradient, with the shape and type of data. Backward writes it.")
      .def_property_readonly("_quantization", &Quantization)
      .def_property_readonly("_first_version", &FirstVersion)
      .def("_note_first_version", &NoteFirstVersion)
      .def("_note_written",
           [](const BlobBase& blob) {
             if (caffe::Net* net = NetOf(blob)) net->NoteWritten(blob);
           })
      .def_property_readonly(
          "_gpu_data_ptr",
          [](BlobBase& blob) {
            WaitUntilIdle(blob);
            return Address(blob, blob.mutable_device_data());
          },
          "The address of data in the memory of a CUDA device (or the CPU), int.")
      .def_property_readonly(
          "_gpu_diff_ptr",
          [](BlobBase& blob) {
            WaitUntilIdle(blob);
            return Address(blob, blob.mutable_device_diff());
          },
          "The address of diff in the memory of a CUDA device (or the CPU), int.")
      .def("reshape", &Reshape,
           "reshape(2, 3) or reshape((2, 3)): changes the extents, each an int.\n\n"
           "Earlier views keep the old memory. net.reshape(), or the next forward,\n"
           "reshapes the later blobs. TypeError if an extent is not an integer,\n"
           "RuntimeError for negative extents and sizes that do not fit into memory.");
}
