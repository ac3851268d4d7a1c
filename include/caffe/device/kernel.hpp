#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"
#include "caffe/device/device_ptr.hpp"

namespace caffe {

class Device;

// One argument as declared in the head of a kernel: KERNEL(name, ARG(i64, n), IN(MItype, x), …).
struct KernelParameter {
  enum class Kind { kScalar, kFold, kIn, kOut };
  Kind kind = Kind::kScalar;
  std::string type;  // as declared: i32 u32 i64 u64 Acctype Scaletype Requant; Dtype MItype f32 …
  std::string name;
};

struct KernelSignature {
  std::string name;
  bool spans = false;  // SPAN_KERNEL: a work item computes DeviceInfo::span() elements
  std::vector<KernelParameter> parameters;
};

// A value for one argument. Implicit from integers, floating-point numbers, Requant and pointers.
class KernelArgument {
 public:
  enum class Kind : int32_t { kInteger, kReal, kRequant, kPointer };
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  KernelArgument(T value) : kind(Kind::kInteger), integer(static_cast<int64_t>(value)) {}
  KernelArgument(double value) : kind(Kind::kReal), real(value) {}
  KernelArgument(Requant value) : kind(Kind::kRequant), requant(value) {}
  // An array with a zero point has no exponent.
  KernelArgument(DevicePtr value, int32_t zero_point = 0)
      : kind(Kind::kPointer), zero(zero_point + value.exponent), pointer(value) {}

  Kind kind;
  int32_t zero = 0;  // of the data behind a pointer: the zero point, or DevicePtr::exponent
  union {            // by kind
    int64_t integer;
    double real;
    Requant requant;
    DevicePtr pointer;
  };
};

// The arguments of one launch, stored without heap memory.
class KernelArguments {
 public:
  static constexpr size_t kCapacity = 40;

  KernelArguments() = default;
  KernelArguments(std::initializer_list<KernelArgument> arguments) { append(arguments); }
  void push_back(const KernelArgument& argument) { append(&argument, &argument + 1); }
  void append(std::initializer_list<KernelArgument> arguments) {
    append(arguments.begin(), arguments.end());
  }
  template <class Iterator> void append(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      if (size_ == kCapacity) ThrowFull();
      new (static_cast<void*>(storage_ + size_ * sizeof(KernelArgument))) KernelArgument(*first);
      ++size_;
    }
  }

  size_t size() const { return size_; }
  const KernelArgument* begin() const {
    return std::launder(reinterpret_cast<const KernelArgument*>(storage_));
  }
  const KernelArgument* end() const { return begin() + size_; }
  const KernelArgument& operator[](size_t i) const { return begin()[i]; }

 private:
  [[noreturn]] static void ThrowFull();

  size_t size_ = 0;
  alignas(KernelArgument) std::byte storage_[kCapacity * sizeof(KernelArgument)];
};

// How many work items: FOR_EACH(i, n) and FOR_EACH_GROUP(g, n) take {n}; FOR_EACH_ROW(r, rows, c,
// cols) takes {rows, cols}.
struct LaunchRange {
  int64_t rows = 0, columns = 1;
  // How many elements an item computes. A hint: whether threads share the items pays on the host.
  int64_t cost = 1;
  LaunchRange(int64_t rows_) : rows(rows_) {}
  LaunchRange(int64_t rows_, int64_t columns_) : rows(rows_), columns(columns_) {}
  static LaunchRange WithCost(int64_t items, int64_t cost) {
    LaunchRange range(items);
    range.cost = cost;
    return range;
  }
};

// Work groups and their local size, for work-group kernels (LOCAL, BARRIER), which run on devices
// only.
struct LaunchGroups {
  std::array<int64_t, 3> groups{1, 1, 1};
  std::array<int64_t, 3> local{1, 1, 1};
  // Bytes of LOCAL_DYNAMIC; on CUDA only, where there can be more of it than of LOCAL.
  int64_t local_bytes = 0;
};

// One compiled kernel with its argument slots. Not thread-safe; belongs to a net.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues one launch on the calling thread's stream and returns. Arguments are given for every
  // declared parameter, including foldable ones, in declaration order. Throws if their number or
  // kinds are wrong, or if an OUT gets a read-only pointer. An empty range launches nothing.
  void Launch(const LaunchRange& range, const KernelArguments& arguments);
  void LaunchInGroups(const LaunchGroups& groups, const KernelArguments& arguments);
  const KernelSignature& signature() const { return signature_; }
  // The items of its groups, if ProgramBuilder::GroupKernel made it: GROUP in its text.
  int64_t group() const { return group_; }
  void set_group(int64_t items) { group_ = items; }
  // The most items of a group with which this kernel runs. A kernel that needs many registers may
  // allow fewer than its device.
  virtual int64_t most_items() const;

 protected:
  Kernel(Device* device, KernelSignature signature, const TypeTriple& types);
  // The 256-wide launch of `range`, or `groups`; arguments are already checked.
  virtual void DoLaunch(const LaunchRange& range, const KernelArguments& arguments) = 0;
  virtual void DoLaunchGroups(const LaunchGroups& groups, const KernelArguments& arguments) = 0;

  Device* device_;
  KernelSignature signature_;
  TypeTriple types_;
  int64_t group_ = 0;
  bool typed_;  // the pointers of a type have a scale, or are packed

 private:
  void Check(const KernelArguments& arguments) const;
  void CheckTyped(const KernelArguments& arguments) const;
  void NoteUse(const KernelArguments& arguments) const;
  [[noreturn]] void Refuse(size_t argument, const std::string& why) const;
};

// The type of a parameter that is a pointer, if it is declared as Dtype, MItype or MOtype.
std::optional<DataType> DeclaredType(const KernelParameter& parameter, const TypeTriple& types);

// The C type of a scalar parameter.
enum class ScalarKind { kI32, kU32, kI64, kU64, kFloat, kDouble, kRequant };

// The kind of a scalar or foldable parameter for a type triple. Resolves Acctype and Scaletype,
// which depend on the compute type. Throws if kernel arguments cannot have the declared type.
ScalarKind ScalarKindOf(const KernelParameter& parameter, const TypeTriple& types);

// Converts a scalar argument to `kind` and writes the bytes that the kernel expects (at most 8).
// Returns their number. Throws if the value does not fit.
size_t PackScalar(const KernelArgument& argument, ScalarKind kind, void* target);

}  // namespace caffe
