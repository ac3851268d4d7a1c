#include "caffe/device/cuda/cuda_program.hpp"

#include <cstdint>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe::cuda {
namespace {

constexpr int64_t kGroupSize = 256;
// Index is i32 on devices.
constexpr int64_t kMaxItems = INT32_MAX;

class CudaKernel final : public Kernel {
 public:
  CudaKernel(Device* device, std::shared_ptr<Program> program, CUfunction function,
             KernelSignature signature, const ProgramText& text)
      : Kernel(device, std::move(signature), text.types),
        program_(std::move(program)),
        function_(function),
        label_(Concat(device->info().id, ": kernel ", signature_.name, " of program '", text.name,
                      "'")) {
    size_t values = 0;
    for (const KernelParameter& parameter : signature_.parameters) {
      Slot slot;
      slot.first = values;
      const auto fold = text.folds.find(parameter.name);
      if (parameter.kind == KernelParameter::Kind::kIn ||
          parameter.kind == KernelParameter::Kind::kOut) {
        slot.kind = Slot::kPointer;
        values += 2;
      } else if (parameter.kind == KernelParameter::Kind::kFold && fold != text.folds.end()) {
        slot.kind = Slot::kFolded;
        slot.fold = fold->second;
      } else {
        slot.kind = Slot::kScalar;
        slot.scalar = ScalarKindOf(parameter, types_);
        values += 1;
      }
      slots_.push_back(std::move(slot));
    }
    values_.resize(values);
    for (uint64_t& value : values_) pointers_.push_back(&value);
  }

 protected:
  void DoLaunch(const LaunchRange& range, const KernelArguments& arguments) override {
    CAFFE_CHECK(range.rows <= kMaxItems && range.columns <= kMaxItems &&
                    range.rows * range.columns <= kMaxItems,
                label_, ": ", range.rows, " x ", range.columns,
                " work items are more than 2^31 - 1");
    const int64_t items = range.rows * range.columns;
    const auto blocks = static_cast<unsigned>((items + kGroupSize - 1) / kGroupSize);
    Enqueue({blocks, 1, 1}, {kGroupSize, 1, 1}, 0, arguments);
  }

  void DoLaunchGroups(const LaunchGroups& groups, const KernelArguments& arguments) override {
    std::array<unsigned, 3> grid{}, block{};
    int64_t threads = 1;
    for (int d = 0; d < 3; ++d) {
      CAFFE_CHECK(groups.local[d] >= 1 && groups.groups[d] <= (d == 0 ? kMaxItems : 65535), label_,
                  ": ", groups.groups[d], " groups of ", groups.local[d],
                  " work items in dimension ", d, " cannot be launched");
      grid[d] = static_cast<unsigned>(groups.groups[d]);
      block[d] = static_cast<unsigned>(groups.local[d]);
      threads *= groups.local[d];
    }
    CAFFE_CHECK(threads <= device_->info().max_group_size, label_, ": a group of ", threads,
                " work items is larger than the device's ", device_->info().max_group_size);
    AllowLocalBytes(groups.local_bytes);
    Enqueue(grid, block, static_cast<unsigned>(groups.local_bytes), arguments);
  }

 private:
  // How one declared argument is passed.
  struct Slot {
    enum Kind { kScalar, kPointer, kFolded } kind = kScalar;
    ScalarKind scalar = ScalarKind::kI64;
    int64_t fold = 0;  // the value that the text was compiled with
    size_t first = 0;  // in values_: the scalar, or the address followed by the zero point
  };

  void Pack(const KernelArguments& arguments) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      const KernelArgument& argument = arguments[i];
      uint64_t* value = values_.data() + slot.first;
      if (slot.kind == Slot::kPointer) {
        value[0] = reinterpret_cast<uint64_t>(argument.pointer.handle) +
                   static_cast<uint64_t>(argument.pointer.offset);
        std::memcpy(&value[1], &argument.zero, sizeof(argument.zero));
      } else if (slot.kind == Slot::kScalar) {
        try {
          PackScalar(argument, slot.scalar, value);
        } catch (const Error& error) {
          CAFFE_THROW(label_, ": argument ", signature_.parameters[i].name, ": ", error.what());
        }
      } else {
        const bool same = argument.kind == KernelArgument::Kind::kInteger
                              ? argument.integer == slot.fold
                              : argument.kind == KernelArgument::Kind::kReal &&
                                    argument.real == static_cast<double>(slot.fold);
        CAFFE_CHECK(same, label_, ": argument ", signature_.parameters[i].name,
                    " was compiled in as ", slot.fold, " and is launched with another value");
      }
    }
  }

  // The driver refuses more than 48 KiB unless it was told before.
  void AllowLocalBytes(int64_t bytes) {
    if (bytes <= local_bytes_) return;
    const CUresult result = Driver::Get().cuFuncSetAttribute.Try(function_, kMaxDynamicSharedBytes,
                                                                 static_cast<int>(bytes));
    CAFFE_CHECK(result == kSuccess, label_, ": a group cannot have ", bytes,
                " bytes of local memory: ", DriverErrorText(result));
    local_bytes_ = bytes;
  }

  void Enqueue(const std::array<unsigned, 3>& grid, const std::array<unsigned, 3>& block,
               unsigned local_bytes, const KernelArguments& arguments) {
    Pack(arguments);
    auto* stream = static_cast<CUstream>(device_->native_stream());
    const CUresult result =
        Driver::Get().cuLaunchKernel.Try(function_, grid[0], grid[1], grid[2], block[0], block[1],
                                         block[2], local_bytes, stream, pointers_.data(), nullptr);
    CAFFE_CHECK(result == kSuccess, label_, ": cuLaunchKernel failed for ", grid[0], "x", grid[1],
                "x", grid[2], " groups of ", block[0], "x", block[1], "x", block[2],
                " work items: ", DriverErrorText(result));
  }

  std::shared_ptr<Program> program_;  // keeps the module loaded
  CUfunction function_;
  int64_t local_bytes_ = 0;  // that the driver allows
  std::string label_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> values_;
  std::vector<void*> pointers_;  // into values_
};

}  // namespace

CudaProgram::CudaProgram(Device* device, std::shared_ptr<CudaContext> context,
                         const ProgramText& text, const std::string& binary)
    : device_(device), context_(std::move(context)), text_(text) {
  text_.source.clear();
  text_.source.shrink_to_fit();
  context_->MakeCurrent();
  // PTX must end with a null, which std::string provides.
  const CUresult result = Driver::Get().cuModuleLoadData.Try(&module_, binary.c_str());
  CAFFE_CHECK(result == kSuccess, device->info().id, " (", device->info().name,
              "): cuModuleLoadData failed for program '", text.name, "' (", device->info().compiler,
              ", driver ", device->info().driver, "): ", DriverErrorText(result));
}

CudaProgram::~CudaProgram() {
  if (context_->MakeCurrentIfCreated()) Driver::Get().cuModuleUnload.OrLog(module_);
}

std::unique_ptr<Kernel> CudaProgram::CreateKernel(const std::string& name) {
  for (const KernelSignature& signature : text_.kernels) {
    if (signature.name != name) continue;
    context_->MakeCurrent();
    CUfunction function = nullptr;
    const CUresult result = Driver::Get().cuModuleGetFunction.Try(&function, module_, name.c_str());
    CAFFE_CHECK(result == kSuccess, device_->info().id, ": program '", text_.name,
                "' has no kernel ", name, " for these types: ", DriverErrorText(result));
    return std::make_unique<CudaKernel>(device_, shared_from_this(), function, signature, text_);
  }
  CAFFE_THROW(device_->info().id, ": program '", text_.name, "' declares no kernel ", name);
}

}  // namespace caffe::cuda
