#include "caffe/device/kernel.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/launch_record.hpp"

namespace caffe {
namespace {

template <class T> size_t Put(T value, void* target) {
  std::memcpy(target, &value, sizeof(value));
  return sizeof(value);
}

std::atomic<bool> recording{false};

struct LaunchRecord {
  std::mutex mutex;
  std::set<LaunchedKernel> kernels;
};

LaunchRecord& Record() {
  static auto* const record = new LaunchRecord;
  return *record;
}

void NoteLaunch(const Device& device, const KernelSignature& signature, const TypeTriple& types) {
  if (!recording.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(Record().mutex);
  Record().kernels.insert({device.info().id, signature.name, types});
}

}  // namespace

void RecordLaunches() { recording = true; }

std::set<LaunchedKernel> RecordedLaunches() {
  const std::lock_guard lock(Record().mutex);
  return Record().kernels;
}

std::string ScalarType(const KernelParameter& parameter, const TypeTriple& types) {
  if (parameter.type == "Acctype") return types.compute.info().accumulator;
  if (parameter.type == "Scaletype") return types.compute.info().scale;
  return parameter.type;
}

size_t PackScalar(const KernelArgument& argument, const std::string& scalar_type, void* target) {
  if (scalar_type == "Requant") {
    CAFFE_CHECK(argument.kind == KernelArgument::Kind::kRequant,
                "an argument of type Requant was given a plain number");
    return Put(argument.requant, target);
  }
  CAFFE_CHECK(argument.kind == KernelArgument::Kind::kInteger ||
                  argument.kind == KernelArgument::Kind::kReal,
              "a scalar argument of type ", scalar_type, " was given a pointer or a Requant");
  const bool integer = argument.kind == KernelArgument::Kind::kInteger;
  if (scalar_type == "float") {
    return Put(static_cast<float>(integer ? argument.integer : argument.real), target);
  }
  if (scalar_type == "double") {
    return Put(static_cast<double>(integer ? argument.integer : argument.real), target);
  }
  CAFFE_CHECK(integer, "an integer argument was given the real number ", argument.real);
  const int64_t value = argument.integer;
  if (scalar_type == "i32") {
    CAFFE_CHECK(value >= INT32_MIN && value <= INT32_MAX, value, " does not fit an i32 argument");
    return Put(static_cast<int32_t>(value), target);
  }
  if (scalar_type == "u32") {
    CAFFE_CHECK(value >= 0 && value <= int64_t{UINT32_MAX}, value, " does not fit a u32 argument");
    return Put(static_cast<uint32_t>(value), target);
  }
  CAFFE_CHECK(scalar_type == "i64" || scalar_type == "u64", "kernel arguments can not be of type ",
              scalar_type);
  return Put(value, target);
}

void Kernel::Check(const std::vector<KernelArgument>& arguments) const {
  CAFFE_CHECK(arguments.size() == signature_.parameters.size(), "kernel ", signature_.name,
              " declares ", signature_.parameters.size(), " arguments, its launch gives ",
              arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const KernelParameter& parameter = signature_.parameters[i];
    const bool pointer = parameter.kind == KernelParameter::Kind::kIn ||
                         parameter.kind == KernelParameter::Kind::kOut;
    CAFFE_CHECK(pointer == (arguments[i].kind == KernelArgument::Kind::kPointer), "kernel ",
                signature_.name, ": argument ", i, " (", parameter.name, ") is declared as a ",
                pointer ? "pointer" : "scalar", " and given something else");
  }
}

void Kernel::Launch(const LaunchRange& range, const std::vector<KernelArgument>& arguments) {
  Check(arguments);
  if (range.rows <= 0 || range.columns <= 0) return;
  DoLaunch(range, arguments);
  device_->CountLaunch();
  NoteLaunch(*device_, signature_, types_);
}

void Kernel::LaunchInGroups(const LaunchGroups& groups,
                            const std::vector<KernelArgument>& arguments) {
  Check(arguments);
  for (int64_t extent : groups.groups) {
    if (extent <= 0) return;
  }
  DoLaunchGroups(groups, arguments);
  device_->CountLaunch();
  NoteLaunch(*device_, signature_, types_);
}

}  // namespace caffe
