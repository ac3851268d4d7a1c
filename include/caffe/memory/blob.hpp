#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/requant.hpp"
#include "caffe/core/shape.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/memory/synced_memory.hpp"

namespace caffe {

class BlobProto;

// An N-dimensional array in C order with data and diff (gradient), of a type known at run time.
// Images are (num, channels, height, width). diff has the type of data. Memory is allocated at the
// first use; a smaller shape keeps the existing memory.
class BlobBase : public std::enable_shared_from_this<BlobBase> {
 public:
  BlobBase(DataType type, Device* device, const Shape& shape = {0}, std::string name = "");
  virtual ~BlobBase() = default;

  DataType type() const { return type_; }
  Device* device() const { return device_; }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  const Shape& shape() const { return shape_; }
  int64_t shape(int axis) const { return shape_[CanonicalAxisIndex(axis)]; }
  int num_axes() const { return static_cast<int>(shape_.size()); }
  int64_t count() const { return count_; }
  int64_t count(int begin, int end = -1) const { return ShapeCount(shape_, begin, end); }
  int64_t bytes() const { return type_.StorageBytes(count_); }
  int CanonicalAxisIndex(int axis) const { return CanonicalAxis(shape_, axis, "blob " + name_); }
  std::string shape_string() const { return ShapeString(shape_); }
  // BVLC's accessors for blobs of at most 4 axes; missing ones are 1.
  int64_t LegacyShape(int axis) const;
  int64_t num() const { return LegacyShape(0); }
  int64_t channels() const { return LegacyShape(1); }
  int64_t height() const { return LegacyShape(2); }
  int64_t width() const { return LegacyShape(3); }

  void Reshape(const Shape& shape);
  void ReshapeLike(const BlobBase& other) { Reshape(other.shape()); }

  const void* host_data() const;
  void* mutable_host_data();
  const void* host_diff() const;
  void* mutable_host_diff();
  DevicePtr device_data() const;
  DevicePtr mutable_device_data();
  DevicePtr device_diff() const;
  DevicePtr mutable_device_diff();
  // For callers that write all elements: see SyncedMemory.
  void* overwrite_host_data();
  DevicePtr overwrite_device_data();
  DevicePtr overwrite_device_diff();
  // Elements converted to double, and back; for float kinds. Data of a scaled type have the scale
  // of range().
  std::vector<double> DataAsDouble() const;
  std::vector<double> DiffAsDouble() const;
  void SetData(const std::vector<double>& values);
  void SetDiff(const std::vector<double>& values);

  // Arguments of a launch; that of a quantized blob includes its zero point.
  KernelArgument Data() const { return {device_data(), range_.zero}; }
  KernelArgument MutableData() { return {mutable_device_data(), range_.zero}; }
  KernelArgument OverwriteData() { return {overwrite_device_data(), range_.zero}; }
  KernelArgument Diff() const { return {device_diff(), 0}; }
  KernelArgument MutableDiff() { return {mutable_device_diff(), 0}; }

  // Shares the data (diff) of `other`: one memory, no copy. Counts, types and devices must be
  // equal.
  void ShareData(const BlobBase& other);
  void ShareDiff(const BlobBase& other);
  const std::shared_ptr<SyncedMemory>& data_memory() const;
  const std::shared_ptr<SyncedMemory>& diff_memory() const;
  bool has_diff() const { return diff_ != nullptr; }
  uint64_t data_version() const { return data_ ? data_->version() : 0; }
  void SetDevice(Device* device);

  // Scale, zero point and whether a range was ever observed; for types with DataType::has_range.
  const QuantRange& range() const { return range_; }
  void set_range(const QuantRange& range);

  // Element-wise copy with conversion. Throws if the counts differ.
  void CopyDataFrom(const BlobBase& other);
  // Reads BVLC's blob format: double, float, and the fork's packed types. With `reshape` the blob
  // takes the shape; otherwise the shape must fit (legacy 4-axis shapes fit if the extents agree
  // after leading ones).
  void FromProto(const BlobProto& proto, bool reshape = true);
  void ToProto(BlobProto* proto, bool write_diff = false) const;
  bool ShapeEquals(const BlobProto& proto) const;

  double asum_data() const;
  double asum_diff() const;
  double sumsq_data() const;
  double sumsq_diff() const;

 protected:
  void CheckDevice(const BlobBase& other, const char* what) const;
  // The pointer to data, with the scale of a scaled type.
  DevicePtr Typed(DevicePtr data) const {
    data.scaled = range_.observed;
    data.packed = packed_;
    data.exponent = exponent_;
    return data;
  }

  DataType type_;
  Device* device_;
  std::string name_;
  Shape shape_;
  int64_t count_ = 0;
  mutable std::shared_ptr<SyncedMemory> data_, diff_;
  QuantRange range_;
  int16_t exponent_ = 0;  // of range_.scale, if the type is scaled
  const bool packed_;     // type_.is_packed()
};

// The typed interface. Dtype is the element type: float, half, bfloat16, double, quant8, quant16.
template <class Dtype> class Blob : public BlobBase {
 public:
  // On the calling thread's default device.
  Blob();
  explicit Blob(const Shape& shape);
  Blob(Device* device, const Shape& shape) : BlobBase(DataTypeOf<Dtype>::value, device, shape) {}

  const Dtype* cpu_data() const { return static_cast<const Dtype*>(host_data()); }
  Dtype* mutable_cpu_data() { return static_cast<Dtype*>(mutable_host_data()); }
  const Dtype* cpu_diff() const { return static_cast<const Dtype*>(host_diff()); }
  Dtype* mutable_cpu_diff() { return static_cast<Dtype*>(mutable_host_diff()); }
  vptr<const Dtype> gpu_data() const { return vptr<const Dtype>(device_data()); }
  vptr<Dtype> mutable_gpu_data() { return vptr<Dtype>(mutable_device_data()); }
  vptr<const Dtype> gpu_diff() const { return vptr<const Dtype>(device_diff()); }
  vptr<Dtype> mutable_gpu_diff() { return vptr<Dtype>(mutable_device_diff()); }
};

using BlobVec = std::vector<BlobBase*>;

// Creates a Blob<Dtype> for a type known at run time.
std::shared_ptr<BlobBase> MakeBlob(DataType type, Device* device, const Shape& shape = {0},
                                   const std::string& name = "");

// The type of packed_data and packed_diff. Throws if it is a type of a user that is not registered.
DataType PackedType(const BlobProto& proto);

// The typed interface of a blob. Throws if it has another type.
template <class Dtype> Blob<Dtype>& As(BlobBase& blob) {
  CAFFE_CHECK(blob.type() == DataTypeOf<Dtype>::value, "blob ", blob.name(), " holds ",
              blob.type().name(), ", not ", DataTypeOf<Dtype>::value.name());
  return static_cast<Blob<Dtype>&>(blob);
}

}  // namespace caffe
