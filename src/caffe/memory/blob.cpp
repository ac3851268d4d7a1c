#include "caffe/memory/blob.hpp"

#include <cmath>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

// Too small; or larger than needed and never written, as after a shape that the device had no room
// for.
bool Misfits(const std::shared_ptr<SyncedMemory>& memory, int64_t needed) {
  if (!memory) return false;
  if (memory->bytes() < needed) return true;
  return memory->bytes() > needed && memory->version() == 0 && memory.use_count() == 1 &&
         !memory->has_view();
}

std::vector<double> ToDouble(DataType type, const void* source, int64_t count) {
  std::vector<double> values(count);
  ConvertElements(type, source, kDouble, values.data(), count);
  return values;
}

Shape ProtoShape(const BlobProto& proto) {
  Shape shape;
  if (proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width()) {
    return {proto.num(), proto.channels(), proto.height(), proto.width()};
  }
  for (int i = 0; i < proto.shape().dim_size(); ++i) shape.push_back(proto.shape().dim(i));
  return shape;
}

double SumOf(const std::vector<double>& values, bool squares) {
  double sum = 0;
  for (double value : values) sum += squares ? value * value : std::abs(value);
  return sum;
}

// Returns the memory; throws if it is not on the blob's device.
SyncedMemory& Here(const BlobBase& blob, const std::shared_ptr<SyncedMemory>& memory) {
  CAFFE_CHECK(memory->device() == blob.device(), "blob ", blob.name(), " is on ",
              blob.device()->info().id, ", but its memory is on ", memory->device()->info().id,
              ": a blob that shares it was moved; move this one, too, or copy");
  return *memory;
}

}  // namespace

BlobBase::BlobBase(DataType type, Device* device, const Shape& shape, std::string name)
    : type_(type), device_(device), name_(std::move(name)), packed_(type.is_packed()) {
  Reshape(shape);
}

int64_t BlobBase::LegacyShape(int axis) const {
  CAFFE_CHECK(num_axes() <= 4, "blob ", name_, " of shape ", shape_string(),
              " has more than 4 axes, so num, channels, height and width are not defined");
  return axis < num_axes() ? shape_[axis] : 1;
}

void BlobBase::Reshape(const Shape& shape) {
  CAFFE_CHECK(shape.size() <= 32, "blob ", name_, ": ", shape.size(), " axes are more than 32");
  int64_t count;
  try {
    count = ShapeCount(shape);
  } catch (const Error& error) {
    CAFFE_THROW("blob ", name_, ": ", error.what());
  }
  shape_ = shape;
  count_ = count;
  const int64_t needed = bytes();
  if (Misfits(data_, needed)) data_.reset();
  if (Misfits(diff_, needed)) diff_.reset();
}

const std::shared_ptr<SyncedMemory>& BlobBase::data_memory() const {
  if (!data_) data_ = std::make_shared<SyncedMemory>(bytes(), device_, "blob " + name_);
  return data_;
}

const std::shared_ptr<SyncedMemory>& BlobBase::diff_memory() const {
  if (!diff_) diff_ = std::make_shared<SyncedMemory>(bytes(), device_, "gradient of " + name_);
  return diff_;
}

const void* BlobBase::host_data() const { return data_memory()->host_data(); }
void* BlobBase::mutable_host_data() { return data_memory()->mutable_host_data(); }
const void* BlobBase::host_diff() const { return diff_memory()->host_data(); }
void* BlobBase::mutable_host_diff() { return diff_memory()->mutable_host_data(); }
DevicePtr BlobBase::device_data() const { return Typed(Here(*this, data_memory()).device_data()); }
DevicePtr BlobBase::mutable_device_data() {
  return Typed(Here(*this, data_memory()).mutable_device_data());
}
DevicePtr BlobBase::device_diff() const { return Here(*this, diff_memory()).device_data(); }
DevicePtr BlobBase::mutable_device_diff() {
  return Here(*this, diff_memory()).mutable_device_data();
}
void* BlobBase::overwrite_host_data() { return data_memory()->overwrite_host_data(bytes()); }
DevicePtr BlobBase::overwrite_device_data() {
  return Typed(Here(*this, data_memory()).overwrite_device_data(bytes()));
}
DevicePtr BlobBase::overwrite_device_diff() {
  return Here(*this, diff_memory()).overwrite_device_data(bytes());
}

void BlobBase::set_range(const QuantRange& range) {
  range_ = range;
  exponent_ = type_.is_scaled() ? static_cast<int16_t>(std::ilogb(range.scale)) : 0;
}

std::vector<double> BlobBase::DataAsDouble() const {
  std::vector<double> values = ToDouble(type_, host_data(), count_);
  if (exponent_ != 0) {
    for (double& value : values) value = std::ldexp(value, exponent_);
  }
  return values;
}
std::vector<double> BlobBase::DiffAsDouble() const { return ToDouble(type_, host_diff(), count_); }

void BlobBase::SetData(const std::vector<double>& values) {
  CAFFE_CHECK(static_cast<int64_t>(values.size()) == count_, "blob ", name_, " has ", count_,
              " elements, but ", values.size(), " values were given");
  CAFFE_CHECK(!type_.is_scaled() || range_.observed, "blob ", name_,
              ": there is no range from which ", "the scale of data type '", type_.name(),
              "' follows; load a calibrated file first");
  if (exponent_ == 0) {
    ConvertElements(kDouble, values.data(), type_, overwrite_host_data(), values.size());
    return;
  }
  std::vector<double> scaled = values;
  for (double& value : scaled) value = std::ldexp(value, -exponent_);
  ConvertElements(kDouble, scaled.data(), type_, overwrite_host_data(), scaled.size());
}

void BlobBase::SetDiff(const std::vector<double>& values) {
  CAFFE_CHECK(static_cast<int64_t>(values.size()) == count_, "blob ", name_, " has ", count_,
              " elements, but ", values.size(), " values were given");
  ConvertElements(kDouble, values.data(), type_, mutable_host_diff(), values.size());
}

void BlobBase::CheckDevice(const BlobBase& other, const char* what) const {
  CAFFE_CHECK(device_ == other.device_, "blob ", name_, " on ", device_->info().id,
              " cannot share the ", what, " of ", other.name_, " on ", other.device_->info().id,
              ": memory belongs to one device; move one of them, or copy");
}

void BlobBase::ShareData(const BlobBase& other) {
  CheckDevice(other, "data");
  CAFFE_CHECK(count_ == other.count() && type_ == other.type(), "blob ", name_, " (", type_.name(),
              ", ", shape_string(), ") cannot share the data of ", other.name(), " (",
              other.type().name(), ", ", other.shape_string(), ")");
  data_ = other.data_memory();
  set_range(other.range_);
}

void BlobBase::ShareDiff(const BlobBase& other) {
  CheckDevice(other, "diff");
  CAFFE_CHECK(count_ == other.count() && type_ == other.type(), "blob ", name_, " (", type_.name(),
              ", ", shape_string(), ") cannot share the diff of ", other.name(), " (",
              other.type().name(), ", ", other.shape_string(), ")");
  diff_ = other.diff_memory();
}

void BlobBase::SetDevice(Device* device) {
  device_ = device;
  if (data_) data_->SetDevice(device);
  if (diff_) diff_->SetDevice(device);
}

void BlobBase::CopyDataFrom(const BlobBase& other) {
  CAFFE_CHECK(count_ == other.count(), "cannot copy blob ", other.name(), " of shape ",
              other.shape_string(), " to blob ", name_, " of shape ", shape_string());
  if (type_.is_scaled() || other.type().is_scaled()) {
    SetData(other.DataAsDouble());
  } else if (type_ == other.type()) {
    std::memcpy(mutable_host_data(), other.host_data(), bytes());
  } else {
    ConvertElements(other.type(), other.host_data(), type_, mutable_host_data(), count_);
  }
}

bool BlobBase::ShapeEquals(const BlobProto& proto) const {
  const bool legacy =
      proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width();
  const Shape other = ProtoShape(proto);
  if (!legacy) return other == shape_;
  // BVLC: a legacy shape is compared right-aligned, with leading ones.
  if (num_axes() > 4) return false;
  Shape own(4 - shape_.size(), 1);
  own.insert(own.end(), shape_.begin(), shape_.end());
  return own == other;
}

void BlobBase::FromProto(const BlobProto& proto, bool reshape) {
  if (reshape) {
    Reshape(ProtoShape(proto));
  } else {
    CAFFE_CHECK(ShapeEquals(proto), "blob ", name_, " has shape ", shape_string(),
                ", but the file has ", ShapeString(ProtoShape(proto)));
  }
  const auto convert = [&](DataType type, const void* source, int64_t size, const char* what,
                           bool diff) {
    CAFFE_CHECK(size == count_, "blob ", name_, " of shape ", shape_string(), " needs ", count_,
                " elements, but its ", what, " in the file has ", size);
    ConvertElements(type, source, type_, diff ? mutable_host_diff() : overwrite_host_data(),
                    count_);
  };
  const auto convert_packed = [&](const std::string& elements, const char* what, bool diff) {
    const DataType type = PackedType(proto);
    const auto size = static_cast<int64_t>(elements.size());
    const bool fits = size == type.FileBytes(count_);
    convert(type, elements.data(), fits ? count_ : size / static_cast<int64_t>(type.bytes()), what,
            diff);
  };
  if (proto.double_data_size() > 0) {
    convert(kDouble, proto.double_data().data(), proto.double_data_size(), "double_data", false);
  } else if (proto.has_packed_data()) {
    convert_packed(proto.packed_data(), "packed_data", false);
  } else {
    convert(kFloat, proto.data().data(), proto.data_size(), "data", false);
  }
  if (proto.double_diff_size() > 0) {
    convert(kDouble, proto.double_diff().data(), proto.double_diff_size(), "double_diff", true);
  } else if (proto.diff_size() > 0) {
    convert(kFloat, proto.diff().data(), proto.diff_size(), "diff", true);
  } else if (proto.has_packed_diff()) {
    convert_packed(proto.packed_diff(), "packed_diff", true);
  }
}

void BlobBase::ToProto(BlobProto* proto, bool write_diff) const {
  proto->Clear();
  for (int64_t extent : shape_) proto->mutable_shape()->add_dim(extent);
  if (type_.is_scaled()) {
    // The scale belongs to the net; a file has the values.
    for (const double value : DataAsDouble()) proto->add_data(static_cast<float>(value));
  } else if (type_ == kDouble) {
    const double* data = static_cast<const double*>(host_data());
    proto->mutable_double_data()->Assign(data, data + count_);
    if (write_diff) {
      const double* diff = static_cast<const double*>(host_diff());
      proto->mutable_double_diff()->Assign(diff, diff + count_);
    }
  } else if (type_ == kFloat) {
    const float* data = static_cast<const float*>(host_data());
    proto->mutable_data()->Assign(data, data + count_);
    if (write_diff) {
      const float* diff = static_cast<const float*>(host_diff());
      proto->mutable_diff()->Assign(diff, diff + count_);
    }
  } else {
    proto->set_data_type(static_cast<DataTypeProto>(type_.info().proto));
    if (type_.is_custom()) proto->set_data_type_name(type_.name());
    proto->set_packed_data(host_data(), type_.FileBytes(count_));
    if (write_diff) proto->set_packed_diff(host_diff(), type_.FileBytes(count_));
  }
}

DataType PackedType(const BlobProto& proto) {
  if (proto.data_type() != CAFFE_CUSTOM) return DataTypeByProto(proto.data_type());
  CAFFE_CHECK(proto.has_data_type_name(), "a blob of a user's type does not name the type");
  return DataTypeByName(proto.data_type_name());
}

double BlobBase::asum_data() const { return SumOf(DataAsDouble(), false); }
double BlobBase::asum_diff() const { return SumOf(DiffAsDouble(), false); }
double BlobBase::sumsq_data() const { return SumOf(DataAsDouble(), true); }
double BlobBase::sumsq_diff() const { return SumOf(DiffAsDouble(), true); }

template <class Dtype> Blob<Dtype>::Blob() : Blob(Runtime::Get().default_device(), {0}) {}

template <class Dtype>
Blob<Dtype>::Blob(const Shape& shape) : Blob(Runtime::Get().default_device(), shape) {}

template class Blob<float>;
template class Blob<half>;
template class Blob<double>;
template class Blob<bfloat16>;
template class Blob<quant8>;
template class Blob<quant16>;

std::shared_ptr<BlobBase> MakeBlob(DataType type, Device* device, const Shape& shape,
                                   const std::string& name) {
  std::shared_ptr<BlobBase> blob;
  if (type == kFloat) blob = std::make_shared<Blob<float>>(device, shape);
  if (type == kHalf) blob = std::make_shared<Blob<half>>(device, shape);
  if (type == kDouble) blob = std::make_shared<Blob<double>>(device, shape);
  if (type == kBfloat16) blob = std::make_shared<Blob<bfloat16>>(device, shape);
  if (type == kQuant8) blob = std::make_shared<Blob<quant8>>(device, shape);
  if (type == kQuant16) blob = std::make_shared<Blob<quant16>>(device, shape);
  if (type.is_custom()) blob = std::make_shared<BlobBase>(type, device, shape);
  CAFFE_CHECK(blob, "there are no blobs of type ", type.name());
  blob->set_name(name);
  return blob;
}

}  // namespace caffe
