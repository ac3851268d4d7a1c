#include "caffe/quant/packed_parameter.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/quant/codes.hpp"

namespace caffe {
namespace {

constexpr int64_t kPart = 1 << 14;  // elements that are converted at a time

}  // namespace

std::shared_ptr<char> PackedParameter::Allocate(int64_t bytes, const std::string& name) {
  const auto buffer =
      std::make_shared<DeviceBuffer>(Runtime::Get().cpu(), bytes, name + " as stored in its file");
  return std::shared_ptr<char>(buffer, buffer->pointer().address());
}

PackedParameter::PackedParameter(DataType type, int64_t count, std::shared_ptr<const char> bytes,
                                 ChannelRanges range, const std::string& where)
    : type_(type), count_(count), elements_(std::move(bytes)), range_(std::move(range)) {
  if (!type.has_range()) return;
  channels_ = CodeRanges(range_, type);
  const int64_t channels = static_cast<int64_t>(channels_.size());
  CAFFE_CHECK(count % channels == 0, where, " has ", count, " codes, but ranges for ", channels,
              " channels");
  if (type.is_scaled()) return;
  const int32_t middle = (type.info().code_max + 1) / 2;
  symmetric_ = std::all_of(channels_.begin(), channels_.end(),
                           [&](const QuantRange& one) { return one.zero == middle; }) &&
               WithCodes(type, elements_.get(), [count](const auto* codes) {
                 return std::find(codes, codes + count, 0) == codes + count;
               });
}

void PackedParameter::Decode(int64_t first, int64_t count, float* target) const {
  if (type_.is_packed() && channels_.empty() && first % 2 != 0) {
    // From the byte of the first element on.
    std::vector<float> values(static_cast<size_t>(count + 1));
    Decode(first - 1, count + 1, values.data());
    std::copy(values.begin() + 1, values.end(), target);
    return;
  }
  const int64_t bytes = static_cast<int64_t>(type_.bytes());
  if (channels_.empty()) {
    ConvertElements(type_, elements_.get() + type_.FileBytes(first), kFloat, target, count);
    return;
  }
  const int64_t depth = count_ / static_cast<int64_t>(channels_.size());
  while (count > 0) {
    const int64_t channel = first / depth;
    const int64_t part = std::min(count, (channel + 1) * depth - first);
    if (type_.is_packed()) {
      // Without a scale: an odd first element has the byte of the one before it.
      std::vector<float> values(static_cast<size_t>(part + 1));
      ConvertElements(type_, elements_.get() + first / 2, kFloat, values.data(),
                      static_cast<size_t>(part + first % 2));
      for (int64_t i = 0; i < part; ++i) {
        target[i] = values[i + first % 2] * static_cast<float>(channels_[channel].scale);
      }
    } else {
      DecodeCodes(elements_.get() + first * bytes, part, channels_[channel], type_, target);
    }
    first += part;
    target += part;
    count -= part;
  }
}

void PackedParameter::Decode(DataType type, void* target) const {
  if (type == kFloat) return Decode(0, count_, static_cast<float*>(target));
  std::vector<float> part(static_cast<size_t>(std::min(kPart, count_)));
  for (int64_t first = 0; first < count_; first += kPart) {
    const int64_t count = std::min(kPart, count_ - first);
    Decode(first, count, part.data());
    ConvertElements(kFloat, part.data(), type,
                    static_cast<char*>(target) + first * static_cast<int64_t>(type.bytes()), count);
  }
}

void PackedParameter::Make(SyncedMemory* memory) { Decode(target_, memory->mutable_host_data()); }

bool PackedParameter::Equals(const BlobBase& blob) const {
  const char* content = static_cast<const char*>(blob.host_data());
  const int64_t bytes = static_cast<int64_t>(target_.bytes());
  std::vector<float> part(static_cast<size_t>(std::min(kPart, count_)));
  std::vector<double> wide(target_ == kDouble ? part.size() : 0);
  for (int64_t first = 0; first < count_; first += kPart) {
    const int64_t count = std::min(kPart, count_ - first);
    Decode(first, count, part.data());
    const void* values = part.data();
    if (!wide.empty()) {
      ConvertElements(kFloat, part.data(), kDouble, wide.data(), count);
      values = wide.data();
    }
    if (std::memcmp(values, content + first * bytes, count * bytes) != 0) return false;
  }
  return true;
}

std::shared_ptr<const PackedParameter> PackedParameter::Of(const BlobBase& blob) {
  const SyncedMemory& memory = *blob.data_memory();
  auto packed = std::dynamic_pointer_cast<const PackedParameter>(memory.form());
  if (!packed || packed->count_ != blob.count()) return nullptr;
  return memory.form_is_content() || packed->Equals(blob) ? packed : nullptr;
}

void PackedParameter::Set(std::shared_ptr<PackedParameter> packed, BlobBase* blob) {
  CAFFE_CHECK(
      packed->count_ == blob->count() && (blob->type() == kFloat || blob->type() == kDouble),
      "blob ", blob->name(), " (", blob->type().name(), ", ", blob->shape_string(),
      ") cannot have ", packed->count_, " packed elements");
  packed->target_ = blob->type();
  blob->data_memory()->SetForm(std::move(packed));
}

void StorePacked(DataType type, std::string bytes, BlobProto* blob) {
  blob->clear_data();
  blob->clear_double_data();
  blob->clear_diff();
  blob->clear_double_diff();
  blob->clear_packed_diff();
  blob->set_packed_data(std::move(bytes));
  blob->set_data_type(static_cast<DataTypeProto>(type.info().proto));
  if (type.is_custom()) blob->set_data_type_name(type.name());
}

template <class Value>
void StoreCodes(const Value* values, int64_t count, int64_t channels, DataType type,
                const std::string& layer, int index, BlobProto* blob, NetParameter* file,
                bool power_of_two) {
  const int32_t most = (type.info().code_max - 1) / 2;
  const int64_t depth = count / channels;
  std::string bytes(type.FileBytes(count), '\0');
  std::vector<double> scales, scaled;  // values without their scales, of a packed type
  for (int64_t c = 0; c < channels; ++c) {
    const Value* row = values + c * depth;
    double largest = 0;
    for (int64_t i = 0; i < depth; ++i) largest = std::max<double>(largest, std::abs(row[i]));
    if (type.is_scaled()) {
      const QuantRange range = ScaledRange({-largest, largest}, type);
      scales.push_back(range.scale);
      if (type.is_packed()) {
        for (int64_t i = 0; i < depth; ++i) scaled.push_back(row[i] / range.scale);
        continue;
      }
      EncodeCodes(row, depth, range, type, bytes.data() + c * depth * type.bytes());
      continue;
    }
    double wanted = std::max(largest / most, 0x1p-126);
    if (power_of_two) wanted = PowerOfTwoFrom(wanted);
    scales.push_back(largest == 0 ? 1 : static_cast<float>(wanted));
    EncodeCodes(row, depth, {scales[c], most + 1}, type, bytes.data() + c * depth * type.bytes(),
                1);
  }
  // Rows with an odd number of elements share bytes.
  if (!scaled.empty()) ConvertElements(kDouble, scaled.data(), type, bytes.data(), scaled.size());
  StorePacked(type, std::move(bytes), blob);
  const std::string name = ParameterQuantizer(layer, index);
  auto* entries = file->mutable_quantizer();
  for (int e = entries->size() - 1; e >= 0; --e) {
    if (entries->Get(e).name() == name) entries->DeleteSubrange(e, 1);
  }
  ChannelRanges ranges = SymmetricRanges(scales, type);
  ranges.scale = scales;
  QuantizerParameter* entry = entries->Add();
  entry->set_name(name);
  WriteRange(ranges, entry);
}

template void StoreCodes(const float*, int64_t, int64_t, DataType, const std::string&, int,
                         BlobProto*, NetParameter*, bool);
template void StoreCodes(const double*, int64_t, int64_t, DataType, const std::string&, int,
                         BlobProto*, NetParameter*, bool);

std::vector<double> ParameterValues(const BlobBase& blob) {
  const auto packed = PackedParameter::Of(blob);
  if (!packed) return blob.DataAsDouble();
  std::vector<double> values(packed->count());
  packed->Decode(kDouble, values.data());
  return values;
}

}  // namespace caffe
