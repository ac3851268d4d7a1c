#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/kernel.hpp"

namespace caffe {

class Device;

// The CPU was to run a text, and there is no C++ compiler.
class NoHostCompiler : public Error {
 public:
  using Error::Error;
};

// A kernel of a caller's text in the kernel dialect (kernels/README.md), for every device and for
// the types of the arrays that it gets:
//
//   TextKernel twice("twice", R"(
//     KERNEL(twice, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
//       FOR_EACH(i, n) STORE(MOtype, y, i, 2 * LOAD(MItype, x, i));
//     })");
//   twice.Launch({TextKernel::Value(n), TextKernel::Data(*x), TextKernel::MutableData(*y)});
//
// MItype, MOtype and Dtype are the types of the arrays that are declared with these words; without
// such an array, Dtype is f64 if MItype or MOtype is, otherwise f32, and the others are Dtype.
// Programs are built at the first launch on a device and in types, and kept in the program cache:
// by the device's compiler, on the CPU by the system's C++ compiler (CAFFE_CXX, c++, g++, clang++).
// Not thread-safe.
class TextKernel {
 public:
  // One argument of a launch: a number, or an array with the word of its type and its length.
  struct Argument {
    KernelArgument value;
    std::string word;   // f32, f16, …, i32, i64; empty for numbers
    int64_t count = 0;  // elements of the array
    std::string what;   // "blob conv1", for messages
    Device* device = nullptr;
    int64_t needed = -1;  // the elements that the kernel uses; -1: the size of the launch
  };

  // `kernel` selects one of several kernels of the text. Throws if the text has no such kernel, or
  // if its head does not follow the dialect.
  TextKernel(std::string title, std::string text, const std::string& kernel = "");

  const KernelSignature& signature() const { return signature_; }
  const std::string& text() const { return text_; }
  // The arguments that bound its loop: FOR_EACH(i, n) has n, and FOR_EACH_ROW(r, rows, c, columns)
  // has rows and columns. Empty if the bounds are not arguments alone.
  const std::vector<std::string>& bounds() const { return bounds_; }

  // Launches on `device`, by default that of its arrays. `size` has the extents of the loop, one or
  // two; it is needed only if there are no bounds(). Throws if number, kinds or types of arguments
  // are wrong, and if arrays lie on different devices or are shorter than the part that the kernel
  // uses; with the compiler's message if the text does not compile.
  void Launch(const std::vector<Argument>& arguments, const std::vector<int64_t>& size = {},
              Device* device = nullptr);

 private:
  // The extents of a launch, as FOR_EACH and FOR_EACH_ROW take them.
  std::vector<int64_t> Size(const std::vector<Argument>& arguments,
                            const std::vector<int64_t>& given) const;
  TypeTriple Types(const std::vector<Argument>& arguments) const;
  Kernel* Built(Device* device, const TypeTriple& types);
  [[noreturn]] void Refuse(size_t argument, const std::string& why) const;

  std::string title_, text_;
  std::string plain_;  // the text without comments
  std::string where_;
  KernelSignature signature_;
  std::vector<std::string> bounds_;
  std::map<std::pair<Device*, TypeTriple>, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace caffe
