#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {

class BlobProto;
class NetParameter;

// The elements of a parameter as a file stores them: of a half kind, or codes with their ranges. It
// is the form (SyncedMemory::SetForm) of a blob of float or double, whose content it makes when the
// blob is read. Operators that compute with the stored type take the elements themselves.
class PackedParameter final : public SyncedMemory::Source {
 public:
  // Memory for `bytes` bytes of a file, which the allocator of the CPU counts.
  static std::shared_ptr<char> Allocate(int64_t bytes, const std::string& name);

  // `count` elements of `type`. `range` is for codes: that of all elements, or of each output
  // channel, which then has an equal part of the elements. Throws, naming `where`, if they do not
  // fit.
  PackedParameter(DataType type, int64_t count, std::shared_ptr<const char> bytes,
                  ChannelRanges range, const std::string& where);

  DataType type() const { return type_; }
  int64_t count() const { return count_; }
  int64_t bytes() const { return type_.FileBytes(count_); }
  const std::shared_ptr<const char>& elements() const { return elements_; }
  const ChannelRanges& range() const { return range_; }
  // The scale and zero point of all codes, or of those of each channel; empty if it holds no codes.
  const std::vector<QuantRange>& channels() const { return channels_; }
  // The codes are those of DESIGN's weights: 1 to 255 (65535) around the middle, which means 0.
  bool symmetric() const { return symmetric_; }

  // The elements lie in the page cache, as a file's, and not in memory of ours.
  bool mapped() const { return mapped_; }
  void set_mapped(bool value) { mapped_ = value; }

  // Elements `first` to `first + count` in float.
  void Decode(int64_t first, int64_t count, float* target) const;
  // All elements, in another float type. Of codes, those in float are converted.
  void Decode(DataType type, void* target) const;
  void Make(SyncedMemory* memory) override;

  // The form of the blob's data. Null if it has none or if a view has changed its content since.
  static std::shared_ptr<const PackedParameter> Of(const BlobBase& blob);
  // Makes this the form of the blob's data, which must be of float or double.
  static void Set(std::shared_ptr<PackedParameter> packed, BlobBase* blob);

 private:
  bool Equals(const BlobBase& blob) const;

  DataType type_, target_ = kFloat;
  int64_t count_;
  std::shared_ptr<const char> elements_;
  ChannelRanges range_;
  std::vector<QuantRange> channels_;
  bool symmetric_ = false, mapped_ = false;
};

// Stores elements of a narrow type in a blob of a file, instead of its data.
void StorePacked(DataType type, std::string bytes, BlobProto* blob);
// Stores `count` values as symmetric codes in the blob of parameter `index` of a layer, which has
// this name of UniqueLayerNames in the file, and their scales in the file's quantizers. Each of
// `channels` equal parts has a scale of its own, max |value| / 127 (32767) rounded to float, at
// least 2^-126, or 1 if all are 0. Codes of a scaled type have ScaledRange for each part.
template <class Value>
void StoreCodes(const Value* values, int64_t count, int64_t channels, DataType type,
                const std::string& layer, int index, BlobProto* blob, NetParameter* file,
                bool power_of_two = false);

// The elements of a parameter in float or double, as double. Does not make the content of a blob
// that has a packed form.
std::vector<double> ParameterValues(const BlobBase& blob);

}  // namespace caffe
