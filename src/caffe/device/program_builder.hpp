#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/program.hpp"

namespace caffe {

class Device;

// Assembles one program from kernel bodies in kernels/:
//   auto program = ProgramBuilder(device, "relu").Types(types).Body("neuron/relu").Build();
//   auto forward = program->CreateKernel("relu_forward");
class ProgramBuilder {
 public:
  ProgramBuilder(Device* device, std::string name);
  ProgramBuilder& Types(const TypeTriple& types);
  ProgramBuilder& Types(DataType type) { return Types(TypeTriple::Equal(type)); }
  // Adds a preprocessor define; on devices only.
  ProgramBuilder& Define(const std::string& name, const std::string& value);
  ProgramBuilder& Define(const std::string& name, int64_t value);
  // Adds an option of the device's compiler; on devices only.
  ProgramBuilder& Option(const std::string& option);
  // Sets a FOLD parameter: a define where a program for each shape pays (DeviceInfo::folds_shapes),
  // an ordinary argument elsewhere.
  ProgramBuilder& Fold(const std::string& parameter, int64_t value);
  // Adds a type that bodies name directly, as IN(f16, x), and that is not one of the triple.
  ProgramBuilder& AlsoType(DataType type);
  // kernels/<path>.h, `path` without the extension, and the files that it includes.
  ProgramBuilder& Body(const std::string& path);
  // A text of the caller's, which the CPU compiles at run time, too. `title` names it in messages.
  ProgramBuilder& Source(const std::string& title, const std::string& text);

  ProgramText Text() const;
  // Builds through the runtime's program cache. Throws with device, kernel, compiler log and the
  // lines around the first error.
  std::shared_ptr<Program> Build() const;
  // A kernel of work groups with as many items as the device and the compiled kernel allow: a power
  // of two up to 256, which its text knows as GROUP, and kernel->group() returns. `program` is one
  // that Build has returned; other texts are built if the kernel allows fewer items.
  std::unique_ptr<Kernel> GroupKernel(const std::string& kernel, std::shared_ptr<Program> program);
  std::unique_ptr<Kernel> GroupKernel(const std::string& kernel) {
    return GroupKernel(kernel, Build());
  }

 private:
  Device* device_;
  std::string name_;
  TypeTriple types_;
  std::map<std::string, std::string> defines_;
  std::map<std::string, int64_t> folds_;
  std::set<std::string> words_;
  std::string options_;
  struct Part {
    std::string title, text;
    bool own;  // a text of the caller's
  };
  std::vector<Part> bodies_;
};

}  // namespace caffe
