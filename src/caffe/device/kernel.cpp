#include "caffe/device/kernel.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/launch_record.hpp"

namespace caffe {
namespace {

template <class T> size_t Put(T value, void* target) {
  std::memcpy(target, &value, sizeof(value));
  return sizeof(value);
}

// Whether pointers to elements of the type carry more than an address.
bool IsTyped(DataType type) { return type.is_scaled() || type.is_packed(); }

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

void RecordLaunches() {
  const std::lock_guard lock(Record().mutex);
  Record().kernels.clear();
  recording = true;
}

std::set<LaunchedKernel> RecordedLaunches() {
  const std::lock_guard lock(Record().mutex);
  return Record().kernels;
}

Kernel::Kernel(Device* device, KernelSignature signature, const TypeTriple& types)
    : device_(device),
      signature_(std::move(signature)),
      types_(types),
      typed_(IsTyped(types.compute) || IsTyped(types.in) || IsTyped(types.out)) {}

std::optional<DataType> DeclaredType(const KernelParameter& parameter, const TypeTriple& types) {
  const std::string_view type = parameter.type;
  if (type == "Dtype") return types.compute;
  if (type == "MItype") return types.in;
  if (type == "MOtype") return types.out;
  return std::nullopt;
}

ScalarKind ScalarKindOf(const KernelParameter& parameter, const TypeTriple& types) {
  const std::string_view type = parameter.type == "Acctype"     ? types.compute.info().accumulator
                                : parameter.type == "Scaletype" ? types.compute.info().scale
                                                                : parameter.type;
  if (type == "i32") return ScalarKind::kI32;
  if (type == "u32") return ScalarKind::kU32;
  if (type == "i64") return ScalarKind::kI64;
  if (type == "u64") return ScalarKind::kU64;
  if (type == "float") return ScalarKind::kFloat;
  if (type == "double") return ScalarKind::kDouble;
  if (type == "Requant") return ScalarKind::kRequant;
  CAFFE_THROW("parameter ", parameter.name, ": kernel arguments cannot have type ", type);
}

size_t PackScalar(const KernelArgument& argument, ScalarKind kind, void* target) {
  if (kind == ScalarKind::kRequant) {
    CAFFE_CHECK(argument.kind == KernelArgument::Kind::kRequant,
                "an argument of type Requant was given a plain number");
    return Put(argument.requant, target);
  }
  const bool integer = argument.kind == KernelArgument::Kind::kInteger;
  CAFFE_CHECK(integer || argument.kind == KernelArgument::Kind::kReal,
              "a scalar argument was given a pointer or a Requant");
  if (kind == ScalarKind::kFloat) {
    return Put(integer ? static_cast<float>(argument.integer) : static_cast<float>(argument.real),
               target);
  }
  if (kind == ScalarKind::kDouble) {
    return Put(integer ? static_cast<double>(argument.integer) : argument.real, target);
  }
  CAFFE_CHECK(integer, "an integer argument was given the real number ", argument.real);
  const int64_t value = argument.integer;
  if (kind == ScalarKind::kI32) {
    CAFFE_CHECK(value >= INT32_MIN && value <= INT32_MAX, value, " does not fit an i32 argument");
    return Put(static_cast<int32_t>(value), target);
  }
  if (kind == ScalarKind::kU32) {
    CAFFE_CHECK(value >= 0 && value <= int64_t{UINT32_MAX}, value, " does not fit a u32 argument");
    return Put(static_cast<uint32_t>(value), target);
  }
  return Put(value, target);
}

void KernelArguments::ThrowFull() {
  CAFFE_THROW("a kernel launch takes at most ", kCapacity, " arguments");
}

void Kernel::Refuse(size_t argument, const std::string& why) const {
  CAFFE_THROW("kernel ", signature_.name, ": argument ", argument, " (",
              signature_.parameters[argument].name, ") ", why);
}

void Kernel::Check(const KernelArguments& arguments) const {
  CAFFE_CHECK(arguments.size() == signature_.parameters.size(), "kernel ", signature_.name,
              " declares ", signature_.parameters.size(), " arguments, but its launch passes ",
              arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const KernelParameter::Kind kind = signature_.parameters[i].kind;
    const bool out = kind == KernelParameter::Kind::kOut;
    const bool pointer = out || kind == KernelParameter::Kind::kIn;
    if (pointer != (arguments[i].kind == KernelArgument::Kind::kPointer)) [[unlikely]] {
      Refuse(i, Concat("is declared as a ", pointer ? "pointer" : "scalar",
                       ", but its launch passes a different kind"));
    }
    if (out && arguments[i].pointer.read_only) [[unlikely]] {
      Refuse(i,
             "is written by the kernel, but the pointer is read-only: pass MutableData(), "
             "MutableDiff() or mutable_device_data() instead of Data(), Diff() or device_data()");
    }
  }
  if (typed_) [[unlikely]]
    CheckTyped(arguments);
}

void Kernel::CheckTyped(const KernelArguments& arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const KernelArgument& argument = arguments[i];
    if (argument.kind != KernelArgument::Kind::kPointer || !argument.pointer.handle) continue;
    const auto type = DeclaredType(signature_.parameters[i], types_);
    if (!type) continue;
    const bool scale = type->is_scaled() && !argument.pointer.scaled;
    const bool packed = type->is_packed() && !argument.pointer.packed;
    if (scale || packed) {
      Refuse(i, Concat("holds elements of data type '", type->name(), "', but its launch passes ",
                       scale ? "no scale: the blob has no range, or it is"
                             : "an array that is not packed: it is",
                       " a gradient or an array that such a type is not supported for"));
    }
  }
}

// Orders the launch after the work of other streams on its buffers.
void Kernel::NoteUse(const KernelArguments& arguments) const {
  if (!device_->tracks_use()) return;
  std::array<DevicePtr, KernelArguments::kCapacity> used;
  size_t count = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != KernelArgument::Kind::kPointer) continue;
    const bool out = signature_.parameters[i].kind == KernelParameter::Kind::kOut;
    used[count++] = out ? arguments[i].pointer : arguments[i].pointer.ReadOnly();
  }
  device_->NoteUse(std::span<const DevicePtr>(used.data(), count));
}

void Kernel::Launch(const LaunchRange& range, const KernelArguments& arguments) {
  Check(arguments);
  if (range.rows <= 0 || range.columns <= 0) return;
  NoteUse(arguments);
  const int64_t span = signature_.spans ? device_->info().span() : 1;
  LaunchRange items = range;
  int64_t elements = 0;
  if (span > 1 && !__builtin_mul_overflow(range.rows, range.columns, &elements)) {
    CAFFE_CHECK(elements <= INT32_MAX, "kernel ", signature_.name, ": ", range.rows, " x ",
                range.columns, " elements are more than 2^31 - 1");
    items = (elements + span - 1) / span;
  }
  const auto kept = [&] {
    return Capture::Keep(device_, [this, items, arguments] { DoLaunch(items, arguments); });
  };
  if (!Capture::Recording(device_) || !kept()) DoLaunch(items, arguments);
  device_->CountLaunch();
  NoteLaunch(*device_, signature_, types_);
}

int64_t Kernel::most_items() const { return device_->info().max_group_size; }

void Kernel::LaunchInGroups(const LaunchGroups& groups, const KernelArguments& arguments) {
  Check(arguments);
  for (int64_t extent : groups.groups) {
    if (extent <= 0) return;
  }
  NoteUse(arguments);
  const auto kept = [&] {
    return Capture::Keep(device_, [this, groups, arguments] { DoLaunchGroups(groups, arguments); });
  };
  if (!Capture::Recording(device_) || !kept()) DoLaunchGroups(groups, arguments);
  device_->CountLaunch();
  NoteLaunch(*device_, signature_, types_);
}

}  // namespace caffe
