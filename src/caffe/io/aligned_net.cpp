// A caffemodel whose large arrays are aligned. Protocol buffers may hold the fields of a message in
// any order: those that protobuf writes come first, then padding, then the array. Padding is a
// field that BlobProto does not declare, so that readers ignore it.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <string>

#include "caffe.pb.h"
#include "caffe/io/weights_file.hpp"

namespace caffe {
namespace {

using google::protobuf::RepeatedField;
using google::protobuf::io::CodedOutputStream;

constexpr size_t kLarge = 4096;  // bytes: smaller arrays are not aligned
constexpr uint32_t kBytesField = 2;

size_t VarintSize(uint32_t value) { return CodedOutputStream::VarintSize32(value); }

uint32_t Tag(int field) { return static_cast<uint32_t>(field) << 3 | kBytesField; }

// A varint of `size` bytes, which may be more than it needs: readers accept that.
void PutVarint(uint32_t value, size_t size, std::string* out) {
  for (; size > 1; --size, value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// A blob, without its large array.
struct BlobParts {
  std::string fields;
  int array_field = 0;  // 0: none
  const char* array = nullptr;
  size_t bytes = 0;

  size_t header() const { return VarintSize(Tag(array_field)) + VarintSize(bytes); }
  size_t padding_header() const { return VarintSize(Tag(WeightsFile::kPaddingField)) + 1; }
  // Without padding, and with most of it.
  size_t least() const { return fields.size() + (array ? header() + bytes : 0); }
  size_t most() const {
    return least() + (array ? padding_header() + WeightsFile::kAlignment - 1 : 0);
  }
};

class AlignedWriter {
 public:
  explicit AlignedWriter(google::protobuf::io::ZeroCopyOutputStream* stream) : stream_(stream) {}

  bool Write(NetParameter net) {
    google::protobuf::RepeatedPtrField<LayerParameter> layers;
    layers.Swap(net.mutable_layer());
    Put(net.SerializeAsString());
    for (LayerParameter& layer : layers) WriteLayer(&layer);
    stream_.Trim();
    return !stream_.HadError();
  }

 private:
  void Put(const std::string& bytes) {
    stream_.WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
    position_ += bytes.size();
  }

  void WriteLayer(LayerParameter* layer) {
    google::protobuf::RepeatedPtrField<BlobProto> blobs;
    blobs.Swap(layer->mutable_blobs());
    const std::string fields = layer->SerializeAsString();
    std::vector<RepeatedField<float>> floats(blobs.size());
    std::vector<std::string> packed(blobs.size());
    std::vector<BlobParts> parts(blobs.size());
    size_t most = fields.size();
    for (int b = 0; b < blobs.size(); ++b) {
      parts[b] = Split(&blobs[b], &floats[b], &packed[b]);
      most += VarintSize(Tag(LayerParameter::kBlobsFieldNumber)) + VarintSize(parts[b].most()) +
              parts[b].most();
    }
    // The lengths of paddings follow from positions, and these from the size of the layer's length.
    const size_t start =
        position_ + VarintSize(Tag(NetParameter::kLayerFieldNumber)) + VarintSize(most);
    size_t end = start + fields.size();
    std::vector<std::string> heads(blobs.size());
    for (int b = 0; b < blobs.size(); ++b) {
      heads[b] = Head(parts[b], end);
      end += heads[b].size() + parts[b].bytes;
    }
    std::string head;
    PutVarint(Tag(NetParameter::kLayerFieldNumber),
              VarintSize(Tag(NetParameter::kLayerFieldNumber)), &head);
    PutVarint(static_cast<uint32_t>(end - start), VarintSize(most), &head);
    Put(head + fields);
    for (int b = 0; b < blobs.size(); ++b) {
      Put(heads[b]);
      if (parts[b].bytes == 0) continue;
      if (!parts[b].array) continue;
      stream_.WriteRaw(parts[b].array, static_cast<int>(parts[b].bytes));
      position_ += parts[b].bytes;
    }
  }

  static BlobParts Split(BlobProto* blob, RepeatedField<float>* floats, std::string* packed) {
    BlobParts parts;
    blob->mutable_unknown_fields()->DeleteByNumber(WeightsFile::kPaddingField);
    if (4 * static_cast<size_t>(blob->data_size()) >= kLarge) {
      floats->Swap(blob->mutable_data());
      parts.array_field = BlobProto::kDataFieldNumber;
      parts.array = reinterpret_cast<const char*>(floats->data());
      parts.bytes = 4 * static_cast<size_t>(floats->size());
    } else if (blob->packed_data().size() >= kLarge) {
      packed->swap(*blob->mutable_packed_data());
      blob->clear_packed_data();
      parts.array_field = BlobProto::kPackedDataFieldNumber;
      parts.array = packed->data();
      parts.bytes = packed->size();
    }
    parts.fields = blob->SerializeAsString();
    return parts;
  }

  // The bytes before the array of a blob, whose tag is at `position`.
  static std::string Head(const BlobParts& parts, size_t position) {
    const uint32_t tag = Tag(LayerParameter::kBlobsFieldNumber);
    const size_t length_size = VarintSize(parts.most());
    size_t padding = 0, bytes = parts.least();
    if (parts.array) {
      const size_t array = position + VarintSize(tag) + length_size + parts.fields.size() +
                           parts.padding_header() + parts.header();
      padding =
          (WeightsFile::kAlignment - array % WeightsFile::kAlignment) % WeightsFile::kAlignment;
      bytes += parts.padding_header() + padding;
    }
    std::string head;
    PutVarint(tag, VarintSize(tag), &head);
    PutVarint(static_cast<uint32_t>(bytes), length_size, &head);
    head += parts.fields;
    if (!parts.array) return head;
    const uint32_t padding_tag = Tag(WeightsFile::kPaddingField),
                   array_tag = Tag(parts.array_field);
    PutVarint(padding_tag, VarintSize(padding_tag), &head);
    PutVarint(static_cast<uint32_t>(padding), 1, &head);
    head.append(padding, '\0');
    PutVarint(array_tag, VarintSize(array_tag), &head);
    PutVarint(static_cast<uint32_t>(parts.bytes), VarintSize(parts.bytes), &head);
    return head;
  }

  CodedOutputStream stream_;
  size_t position_ = 0;
};

}  // namespace

bool WriteAlignedNet(const NetParameter& net, google::protobuf::io::ZeroCopyOutputStream* stream) {
  return AlignedWriter(stream).Write(net);
}

}  // namespace caffe
