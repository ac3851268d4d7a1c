#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/device/text_kernel.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/net/net.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::BlobBase;
using caffe::Concat;
using caffe::Device;
using caffe::KernelParameter;
using caffe::TextKernel;

// The values or the gradient of a blob, where they are: blob.device_data, blob.device_diff.
struct DeviceArray {
  std::shared_ptr<BlobBase> blob;
  bool diff = false;
};

bool IsArray(const KernelParameter& parameter) {
  return parameter.kind == KernelParameter::Kind::kIn ||
         parameter.kind == KernelParameter::Kind::kOut;
}

// The word of a NumPy type in the dialect; empty for types that kernels do not have.
std::string WordOf(const py::array& array) {
  const std::string name = py::str(array.dtype().attr("name"));
  for (const auto& [numpy, word] : {std::pair<const char*, const char*>{"float32", "f32"},
                                    {"float16", "f16"},
                                    {"bfloat16", "bf16"},
                                    {"float64", "f64"},
                                    {"int32", "i32"},
                                    {"int64", "i64"}}) {
    if (name == numpy) return word;
  }
  return "";
}

// A copy of a NumPy array in the memory of a device, written back to the array by Return.
class ArrayCopy {
 public:
  ArrayCopy(Device* device, py::array array, bool out)
      : device_(device), array_(std::move(array)), out_(out) {
    const py::module_ numpy = py::module_::import("numpy");
    whole_ = numpy.attr("ascontiguousarray")(array_);
    pointer_ = device->Allocate(std::max<int64_t>(whole_.nbytes(), 1), "an array of a kernel");
    if (whole_.nbytes() > 0) device->Upload(pointer_, whole_.data(), whole_.nbytes());
  }
  ~ArrayCopy() { device_->Free(pointer_); }
  ArrayCopy(const ArrayCopy&) = delete;
  ArrayCopy& operator=(const ArrayCopy&) = delete;

  caffe::DevicePtr pointer() const { return out_ ? pointer_ : pointer_.ReadOnly(); }
  void Return() {
    if (!out_ || whole_.nbytes() == 0) return;
    // A new array: `whole_` may be an array of the caller's that `array_` is a view of.
    py::array_t<uint8_t> bytes(whole_.nbytes());
    device_->Download(bytes.mutable_data(), pointer_, whole_.nbytes());
    const py::object values =
        bytes.attr("view")(array_.dtype()).attr("reshape")(array_.attr("shape"));
    array_.attr("__setitem__")(py::ellipsis(), values);
  }

 private:
  Device* device_;
  py::array array_, whole_;
  bool out_;
  caffe::DevicePtr pointer_;
};

class PythonKernel {
 public:
  PythonKernel(const std::string& text, const std::string& name, const std::string& title,
               const py::dict& elements)
      : kernel_(title, text, name), elements_(elements) {
    for (const auto& [array, wanted] : elements_) {
      const std::string key = py::str(array);
      const auto& parameters = kernel_.signature().parameters;
      const bool known =
          std::any_of(parameters.begin(), parameters.end(),
                      [&](const KernelParameter& row) { return IsArray(row) && row.name == key; });
      CAFFE_CHECK(known, "kernel ", kernel_.signature().name, ": elements names ", key,
                  ", which is not one of its arrays");
    }
  }

  const std::string& name() const { return kernel_.signature().name; }
  const std::string& text() const { return kernel_.text(); }
  // The head of each argument: 'ARG(i64, n)'.
  std::vector<std::string> arguments() const {
    std::vector<std::string> heads;
    for (const KernelParameter& parameter : kernel_.signature().parameters) {
      const char* const kinds[] = {"ARG", "FOLD", "IN", "OUT"};
      heads.push_back(Concat(kinds[static_cast<int>(parameter.kind)], "(", parameter.type, ", ",
                             parameter.name, ")"));
    }
    return heads;
  }

  void Call(const py::args& given, const std::vector<int64_t>& size, Device* device) {
    const auto& parameters = kernel_.signature().parameters;
    if (given.size() != parameters.size()) {
      throw py::type_error(Concat("kernel ", name(), " has ", parameters.size(), " arguments (",
                                  Heads(), "), and the call passes ", given.size()));
    }
    if (!device) device = DeviceOfBlobs(given);
    if (!device) device = caffe::Runtime::Get().default_device();
    std::vector<TextKernel::Argument> arguments;
    std::vector<std::unique_ptr<ArrayCopy>> copies;
    for (size_t i = 0; i < parameters.size(); ++i) {
      TextKernel::Argument argument = IsArray(parameters[i])
                                          ? Array(parameters[i], given[i], device, &copies)
                                          : Number(parameters[i], given[i]);
      if (IsArray(parameters[i])) argument.needed = Needed(parameters[i].name, given);
      arguments.push_back(argument);
    }
    // All pointers are taken before one of them is used: taking one may move the memory.
    for (size_t i = 0; i < parameters.size(); ++i)
      SetPointer(parameters[i], given[i], &arguments[i]);
    kernel_.Launch(arguments, size, device);
    for (size_t i = 0; i < parameters.size(); ++i) ShowInViews(parameters[i], given[i]);
    for (const auto& copy : copies) copy->Return();
  }

 private:
  std::string Heads() const {
    std::string text;
    for (const std::string& head : arguments()) text += (text.empty() ? "" : ", ") + head;
    return text;
  }

  std::string Where(const KernelParameter& parameter) const {
    return Concat("kernel ", name(), ": argument ", parameter.name);
  }

  static std::optional<DeviceArray> BlobOf(const py::handle& object) {
    if (py::isinstance<DeviceArray>(object)) return object.cast<DeviceArray>();
    if (!py::isinstance<BlobBase>(object)) return std::nullopt;
    return DeviceArray{object.cast<std::shared_ptr<BlobBase>>(), false};
  }

  static Device* DeviceOfBlobs(const py::args& given) {
    for (const py::handle object : given) {
      if (const auto array = BlobOf(object)) return array->blob->device();
    }
    return nullptr;
  }

  static const std::shared_ptr<caffe::SyncedMemory>& MemoryOf(const DeviceArray& array) {
    return array.diff ? array.blob->diff_memory() : array.blob->data_memory();
  }

  TextKernel::Argument Number(const KernelParameter& parameter, const py::handle& object) const {
    const bool real =
        parameter.type == "float" || parameter.type == "double" || parameter.type == "Acctype";
    if (BlobOf(object) ||
        (py::isinstance<py::array>(object) && py::len(object.attr("shape")) > 0)) {
      throw py::type_error(Concat(Where(parameter), " is ARG(", parameter.type, ", ",
                                  parameter.name, "), a number, not ", Described(object)));
    }
    if (!real) {
      return {ToInteger(object, Where(parameter)), "", 0, "an integer"};
    }
    const double number = PyFloat_AsDouble(object.ptr());
    if (number == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throw py::type_error(Concat(Where(parameter), " is ", Described(object), ", not a number"));
    }
    return {number, "", 0, "a number"};
  }

  TextKernel::Argument Array(const KernelParameter& parameter, const py::handle& object,
                             Device* device,
                             std::vector<std::unique_ptr<ArrayCopy>>* copies) const {
    const bool out = parameter.kind == KernelParameter::Kind::kOut;
    if (const auto array = BlobOf(object)) {
      const BlobBase& blob = *array->blob;
      WaitUntilIdle(blob);
      caffe::Net* const net = blob.type().has_range() ? NetOf(blob) : nullptr;
      if (net) net->UpdateBlobRanges();
      const std::string what = Concat(array->diff ? "the gradient of blob " : "blob ", blob.name());
      CAFFE_CHECK(!blob.type().has_range() || (blob.range().observed && !array->diff),
                  Where(parameter), " is ", what, " of ", blob.type().name(),
                  ", whose range was never observed, so that its codes stand for no numbers");
      return {caffe::KernelArgument(caffe::DevicePtr(), blob.range().zero), blob.type().word(),
              blob.count(), what, blob.device()};
    }
    if (!py::isinstance<py::array>(object)) {
      throw py::type_error(Concat(Where(parameter), " is ", Described(object),
                                  ", not a blob, blob.device_diff or a NumPy array"));
    }
    const py::array array = py::reinterpret_borrow<py::array>(object);
    const std::string word = WordOf(array);
    if (word.empty()) {
      throw py::type_error(Concat(Where(parameter), " is an array of ",
                                  py::str(array.dtype().attr("name")).cast<std::string>(),
                                  "; kernels have float32, float16, bfloat16, float64, int32 and ",
                                  "int64: array.astype(numpy.float32)"));
    }
    if (out && !array.writeable()) {
      throw py::value_error(
          Concat(Where(parameter), " is written by the kernel, and the array is ", "read-only"));
    }
    copies->push_back(std::make_unique<ArrayCopy>(device, array, out));
    return {copies->back()->pointer(), word, array.size(), "an array", device};
  }

  // The elements that the kernel uses of an array, by `elements`: an integer, the name of an
  // integer argument, or a tuple of these, which are multiplied. -1 without an entry.
  int64_t Needed(const std::string& array, const py::args& given) const {
    if (!elements_.contains(array)) return -1;
    const py::object entry = elements_[array.c_str()];
    if (!py::isinstance<py::tuple>(entry)) return Factor(array, entry, given);
    int64_t product = 1;
    for (const py::handle factor : entry) product *= Factor(array, factor, given);
    return product;
  }

  int64_t Factor(const std::string& array, const py::handle& entry, const py::args& given) const {
    const std::string what = Concat("kernel ", name(), ": elements of ", array);
    if (!py::isinstance<py::str>(entry)) return ToInteger(entry, what);
    const auto& parameters = kernel_.signature().parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name == entry.cast<std::string>() && !IsArray(parameters[i])) {
        return ToInteger(given[i], what);
      }
    }
    CAFFE_THROW(what, " are ", entry.cast<std::string>(), ", which is not one of its arguments");
  }

  void SetPointer(const KernelParameter& parameter, const py::handle& object,
                  TextKernel::Argument* argument) const {
    const auto array = IsArray(parameter) ? BlobOf(object) : std::nullopt;
    if (!array) return;
    // A view may have written the host's copy.
    if (MemoryOf(*array)->has_view()) MemoryOf(*array)->MarkHostWritten();
    BlobBase& blob = *array->blob;
    const bool out = parameter.kind == KernelParameter::Kind::kOut;
    const caffe::DevicePtr pointer = array->diff
                                         ? out ? blob.mutable_device_diff() : blob.device_diff()
                                     : out ? blob.mutable_device_data()
                                           : blob.device_data();
    argument->value = caffe::KernelArgument(pointer, argument->value.zero);
  }

  // Brings the host copies that views of outputs show up to date.
  static void ShowInViews(const KernelParameter& parameter, const py::handle& object) {
    if (parameter.kind != KernelParameter::Kind::kOut) return;
    const auto array = BlobOf(object);
    if (array && MemoryOf(*array)->has_view()) MemoryOf(*array)->host_data();
  }

  TextKernel kernel_;
  py::dict elements_;
};

std::vector<int64_t> ToSize(const py::object& size) {
  std::vector<int64_t> extents;
  if (size.is_none()) return extents;
  if (!py::isinstance<py::tuple>(size) && !py::isinstance<py::list>(size)) {
    return {ToInteger(size, "size", "an integer or two")};
  }
  for (const py::handle extent : size) extents.push_back(ToInteger(extent, "size"));
  return extents;
}

}  // namespace

void BindKernel(py::module_& module) {
  py::class_<DeviceArray>(
      module, "DeviceArray",
      "blob.device_data or blob.device_diff: an argument of caffe.Kernel that stays where it is.")
      .def_property_readonly(
          "shape",
          [](const DeviceArray& array) {
            WaitUntilIdle(*array.blob);
            return py::tuple(py::cast(array.blob->shape()));
          },
          "The extents, a tuple of int.")
      .def("__repr__", [](const DeviceArray& array) {
        return caffe::Printable(Concat("<caffe.DeviceArray ", array.diff ? "diff" : "data", " of ",
                                       array.blob->name(), " on ", array.blob->device()->info().id,
                                       ">"));
      });
  py::reinterpret_borrow<py::class_<BlobBase, std::shared_ptr<BlobBase>>>(module.attr("Blob"))
      .def_property_readonly(
          "device_data",
          [](const std::shared_ptr<BlobBase>& blob) {
            return DeviceArray{blob, false};
          },
          "The values as an argument of a caffe.Kernel, a caffe.DeviceArray: nothing is copied.")
      .def_property_readonly(
          "device_diff",
          [](const std::shared_ptr<BlobBase>& blob) {
            return DeviceArray{blob, true};
          },
          "The gradient as an argument of a caffe.Kernel, a caffe.DeviceArray.");
  py::class_<PythonKernel>(
      module, "Kernel",
      "A kernel in Cortado's dialect of C (kernels/README.md), for every device:\n\n"
      "    twice = caffe.Kernel('''\n"
      "        KERNEL(twice, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {\n"
      "          FOR_EACH(i, n) STORE(MOtype, y, i, 2 * LOAD(MItype, x, i));\n"
      "        }''')\n"
      "    twice(x.count, x, y)\n\n"
      "Kernel(text, name='', title='kernel', elements={}): `name` selects one of several kernels\n"
      "of the text, `title` names the text in messages. An array must be as long as the loop,\n"
      "unless `elements` says how many elements of it the kernel uses: an int, the name of an\n"
      "argument, or a tuple of these, which are multiplied. RuntimeError if the text does not\n"
      "follow the dialect.")
      .def(py::init<const std::string&, const std::string&, const std::string&, const py::dict&>(),
           py::arg("text"), py::arg("name") = "", py::arg("title") = "kernel",
           py::arg("elements") = py::dict())
      .def_property_readonly("name", &PythonKernel::name, "The name of the kernel, str.")
      .def_property_readonly("text", &PythonKernel::text, "The text, str.")
      .def_property_readonly("arguments", &PythonKernel::arguments,
                             "What a call passes, a list of str such as 'ARG(i64, n)'.")
      .def(
          "__call__",
          [](PythonKernel& kernel, const py::args& arguments, const py::object& size,
             const py::object& device) {
            kernel.Call(arguments, ToSize(size),
                        device.is_none() ? nullptr : ToDevice(device, "Kernel"));
          },
          py::arg("size") = py::none(), py::arg("device") = py::none(),
          "Launches the kernel with all arguments of its head, in their order, and returns; a\n"
          "read of a result waits.\n\n"
          "Numbers are int or float. Arrays are blobs (their data), blob.device_diff, and NumPy\n"
          "arrays, which are copied to the device and, for OUT, back. MItype, MOtype and Dtype\n"
          "stand for the types of the arrays. `size` is an int for FOR_EACH or (rows, columns)\n"
          "for FOR_EACH_ROW, and is needed only if the loop is not bounded by arguments alone.\n"
          "`device` is a caffe.Device or a name: by default that of the blobs, otherwise the\n"
          "thread's. The first call on a device and in types compiles the text; the program\n"
          "cache keeps the result. The CPU needs a C++ compiler (CAFFE_CXX, c++, g++ or\n"
          "clang++).\n\n"
          "TypeError for arguments of a wrong number or kind; RuntimeError for wrong types and\n"
          "sizes, and with the compiler's message if the text does not compile.");
}
