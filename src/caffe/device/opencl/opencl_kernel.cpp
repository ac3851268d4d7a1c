#include "caffe/device/opencl/opencl_kernel.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/opencl/opencl_device.hpp"
#include "caffe/device/opencl/opencl_program.hpp"

namespace caffe {

int64_t StorageBytes(const std::string& type, const TypeTriple& types) {
  if (type == "Dtype") return types.compute.bytes();
  if (type == "MItype") return types.in.bytes();
  if (type == "MOtype") return types.out.bytes();
  if (type == "Mastertype") return types.compute == kDouble ? 8 : 4;
  for (const DataType known : {types.compute, types.in, types.out}) {
    if (type == known.word()) return known.bytes();
  }
  for (const DataType known : BuiltInTypes()) {
    if (type == known.word()) return known.bytes();
  }
  if (type == "i8" || type == "u8") return 1;
  if (type == "i16" || type == "u16") return 2;
  if (type == "i32" || type == "u32") return 4;
  if (type == "i64" || type == "u64") return 8;
  constexpr std::string_view kCustom = "custom_";
  CAFFE_CHECK(type.starts_with(kCustom), "a pointer to ", type, " has no known element size");
  return DataTypeByName(type.substr(kCustom.size())).bytes();
}

OpenClKernel::OpenClKernel(OpenClDevice* device, std::shared_ptr<OpenClProgram> program,
                           const KernelSignature& signature, opencl::Handle<cl_kernel> kernel)
    : Kernel(device, signature, program->text().types),
      opencl_device_(device),
      program_(std::move(program)),
      kernel_(std::move(kernel)),
      where_(device->where() + ", kernel " + signature.name + " of program \"" + program_->name() +
             "\"") {
  const auto& folds = program_->text().folds;
  cl_uint expected = 0;
  for (const KernelParameter& parameter : signature_.parameters) {
    Slot slot;
    if (parameter.kind == KernelParameter::Kind::kIn ||
        parameter.kind == KernelParameter::Kind::kOut) {
      slot.kind = Slot::Kind::kPointer;
      slot.element_bytes = StorageBytes(parameter.type, types_);
      expected += 3;
    } else if (parameter.kind == KernelParameter::Kind::kFold && folds.contains(parameter.name)) {
      slot.kind = Slot::Kind::kFolded;
      slot.fold = folds.at(parameter.name);
    } else {
      slot.scalar = ScalarKindOf(parameter, types_);
      expected += 1;
    }
    slots_.push_back(std::move(slot));
  }
  cl_uint count = 0;
  opencl::Check(clGetKernelInfo(kernel_.get(), CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr),
                "clGetKernelInfo(CL_KERNEL_NUM_ARGS)", where_);
  CAFFE_CHECK(count == expected, where_, ": the compiled kernel takes ", count,
              " arguments, but its declaration has ", expected);

  size_t limit = 0;
  opencl::Check(clGetKernelWorkGroupInfo(kernel_.get(), device->id(), CL_KERNEL_WORK_GROUP_SIZE,
                                         sizeof limit, &limit, nullptr),
                "clGetKernelWorkGroupInfo(CL_KERNEL_WORK_GROUP_SIZE)", where_);
  most_items_ = std::min(static_cast<int64_t>(limit), device->info().max_group_size);
  group_size_ = static_cast<size_t>(device->info().group_items());
  while (group_size_ > 1 && group_size_ > limit) group_size_ /= 2;
}

void OpenClKernel::SetArgument(cl_kernel kernel, cl_uint index, size_t size, const void* value,
                               size_t parameter) const {
  const cl_int code = clSetKernelArg(kernel, index, size, value);
  if (code != CL_SUCCESS) [[unlikely]] {
    opencl::Check(code, "clSetKernelArg",
                  where_ + ", argument " + signature_.parameters[parameter].name);
  }
}

void OpenClKernel::SetArguments(cl_kernel kernel, const KernelArguments& arguments) const {
  // Throws in a forked process, where a thread of the parent may hold the driver's locks.
  opencl_device_->queue();
  cl_uint index = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const KernelArgument& argument = arguments[i];
    switch (slot.kind) {
      case Slot::Kind::kFolded:
        CAFFE_CHECK(argument.kind == KernelArgument::Kind::kInteger, where_, ": argument ",
                    signature_.parameters[i].name,
                    " is an integer, but its launch passes a value of another kind");
        CAFFE_CHECK(argument.integer == slot.fold, where_, ": argument ",
                    signature_.parameters[i].name, " is ", argument.integer,
                    ", but the program was built for ", slot.fold);
        break;
      case Slot::Kind::kScalar: {
        alignas(8) char bytes[8];
        size_t size = 0;
        try {
          size = PackScalar(argument, slot.scalar, bytes);
        } catch (const Error& error) {
          CAFFE_THROW(where_, ", argument ", signature_.parameters[i].name, ": ", error.what());
        }
        SetArgument(kernel, index++, size, bytes, i);
        break;
      }
      case Slot::Kind::kPointer: {
        const cl_mem buffer = static_cast<cl_mem>(argument.pointer.handle);
        const int64_t units = argument.pointer.offset * (argument.pointer.packed ? 2 : 1);
        const cl_long offset = units / slot.element_bytes;
        CAFFE_CHECK(offset * slot.element_bytes == units, where_, ": argument ",
                    signature_.parameters[i].name, " lies ", argument.pointer.offset,
                    " bytes into its buffer, which is not a multiple of ", slot.element_bytes,
                    ", the size of ", signature_.parameters[i].type);
        const cl_int zero = argument.zero;
        SetArgument(kernel, index++, sizeof buffer, buffer == nullptr ? nullptr : &buffer, i);
        SetArgument(kernel, index++, sizeof offset, &offset, i);
        SetArgument(kernel, index++, sizeof zero, &zero, i);
        break;
      }
    }
  }
}

void OpenClKernel::Submit(opencl::LaunchWork launch, const KernelArguments& arguments) {
  if (opencl_device_->record()) [[unlikely]] {
    struct Recorded {
      std::shared_ptr<OpenClProgram> program;
      opencl::Handle<cl_kernel> kernel;
    };
    const std::lock_guard lock(opencl_device_->record_mutex());
    const auto recorded =
        std::make_shared<Recorded>(program_, program_->MakeKernel(signature_.name));
    launch.kernel = recorded->kernel.get();
    SetArguments(launch.kernel, arguments);
    return opencl_device_->Submit(launch, where_, recorded);
  }
  launch.kernel = kernel_.get();
  SetArguments(launch.kernel, arguments);
  opencl_device_->Submit(launch, where_);
  if (!launched_) {
    launched_ = true;
    program_->NoteLaunch(signature_.name);
  }
}

void OpenClKernel::DoLaunch(const LaunchRange& range, const KernelArguments& arguments) {
  int64_t items = 0;
  const bool overflow = __builtin_mul_overflow(range.rows, range.columns, &items);
  if (items == 0) return;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  CAFFE_CHECK(!overflow && items > 0 && (program_->wide_index() || items <= kMost), where_, ": ",
              range.rows, " x ", range.columns,
              " work items are more than its 32-bit index can count");
  const size_t global = (static_cast<size_t>(items) + group_size_ - 1) / group_size_ * group_size_;
  Submit({nullptr, 1, {global, 1, 1}, {group_size_, 1, 1}}, arguments);
}

void OpenClKernel::DoLaunchGroups(const LaunchGroups& groups, const KernelArguments& arguments) {
  std::array<size_t, 3> global, local;
  int64_t local_items = 1, group_count = 1;
  for (int i = 0; i < 3; ++i) {
    local[i] = static_cast<size_t>(groups.local[i]);
    global[i] = static_cast<size_t>(groups.groups[i]) * local[i];
    local_items *= groups.local[i];
    group_count *= groups.groups[i];
  }
  if (group_count == 0) return;
  CAFFE_CHECK(local_items > 0 && local_items <= most_items_, where_, ": groups of ", local_items,
              " work items, but this kernel runs with at most ", most_items_, " of the device's ",
              opencl_device_->info().max_group_size);
  CAFFE_CHECK(groups.local_bytes == 0, where_, ": OpenCL kernels state their local memory");
  Submit({nullptr, 3, global, local}, arguments);
}

}  // namespace caffe
