#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"
#include "caffe/device/device_ptr.hpp"

namespace caffe {

class Device;

// One argument as the head of a kernel declares it: KERNEL(name, ARG(i64, n), IN(MItype, x), …).
struct KernelParameter {
  enum class Kind { kScalar, kFold, kIn, kOut };
  Kind kind = Kind::kScalar;
  std::string type;  // as declared: i32 u32 i64 u64 Acctype Scaletype Requant; Dtype MItype f32 …
  std::string name;
};

struct KernelSignature {
  std::string name;
  std::vector<KernelParameter> parameters;
};

// A value for one argument. Implicit from integers, floating-point numbers, Requant and pointers.
class KernelArgument {
 public:
  enum class Kind { kInteger, kReal, kRequant, kPointer };
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  KernelArgument(T value) : kind(Kind::kInteger), integer(static_cast<int64_t>(value)) {}
  KernelArgument(double value) : kind(Kind::kReal), real(value) {}
  KernelArgument(Requant value) : kind(Kind::kRequant), requant(value) {}
  KernelArgument(DevicePtr value, int32_t zero_point = 0)
      : kind(Kind::kPointer), pointer(value), zero(zero_point) {}

  Kind kind;
  int64_t integer = 0;
  double real = 0;
  Requant requant;
  DevicePtr pointer;
  int32_t zero = 0;
};

// How many work items: FOR_EACH(i, n) and FOR_EACH_GROUP(g, n) take {n}; FOR_EACH_ROW(r, rows, c,
// cols) takes {rows, cols}.
struct LaunchRange {
  int64_t rows = 0, columns = 1;
  LaunchRange(int64_t rows_) : rows(rows_) {}
  LaunchRange(int64_t rows_, int64_t columns_) : rows(rows_), columns(columns_) {}
};

// Groups and their local size for work-group kernels (LOCAL, BARRIER); these run on devices only.
struct LaunchGroups {
  std::array<int64_t, 3> groups{1, 1, 1};
  std::array<int64_t, 3> local{1, 1, 1};
};

// One compiled kernel with its argument slots. Not thread-safe; belongs to a net.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues one launch and returns. Arguments are given for every declared parameter, foldable
  // ones included, in the order of the declaration; count and kinds are checked. Nothing is
  // launched for an empty range.
  void Launch(const LaunchRange& range, const std::vector<KernelArgument>& arguments);
  void LaunchInGroups(const LaunchGroups& groups, const std::vector<KernelArgument>& arguments);
  const KernelSignature& signature() const { return signature_; }

 protected:
  Kernel(Device* device, KernelSignature signature, const TypeTriple& types)
      : device_(device), signature_(std::move(signature)), types_(types) {}
  // The 256-wide launch of `range`, or `groups`; arguments are already checked.
  virtual void DoLaunch(const LaunchRange& range, const std::vector<KernelArgument>& arguments) = 0;
  virtual void DoLaunchGroups(const LaunchGroups& groups,
                              const std::vector<KernelArgument>& arguments) = 0;

  Device* device_;
  KernelSignature signature_;
  TypeTriple types_;

 private:
  void Check(const std::vector<KernelArgument>& arguments) const;
};

// The C type of a scalar parameter under a triple: "i32", "i64", "u32", "u64", "float", "double",
// "Requant". Resolves Acctype and Scaletype, which follow the compute type.
std::string ScalarType(const KernelParameter& parameter, const TypeTriple& types);

// The bytes of one scalar argument as the kernel wants them (at most 8), after conversion to
// `scalar_type`. Returns the size.
size_t PackScalar(const KernelArgument& argument, const std::string& scalar_type, void* target);

}  // namespace caffe
